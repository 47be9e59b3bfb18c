"""The command line, ``tilewright doctor | ops | run | show | check | bench``, and the trial of one kernel behind it."""

from .outcome import Outcome as Outcome
from .outcome import finish as finish
from .outcome import table as table
from .subject import choice_of as choice_of
from .subject import subject_of as subject_of
from .trial import Choice as Choice
from .trial import Subject as Subject
from .trial import Trial as Trial

__all__ = ["Choice", "Outcome", "Subject", "Trial", "choice_of", "finish", "subject_of", "table"]
