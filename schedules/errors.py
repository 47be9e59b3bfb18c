"""The error catalogue of schedules: steps that cannot be taken, or that lowering dropped."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class ScheduleError(TilewrightError, ValueError):
    """Root of the schedules' errors."""


class UnknownHandle(ScheduleError, KeyError):
    """A step names a loop, buffer or operation that the program does not have."""

    __str__ = TilewrightError.__str__


class IllegalValue(ScheduleError):
    """A step's option is outside what it can take."""


class IllegalStep(ScheduleError):
    """A step does not fit the program: nothing there to change, or it was changed before."""


class CannotPlace(ScheduleError):
    """An open tile whose place its uses do not tell."""


class WrongTarget(ScheduleError):
    """A step needs a feature that the target lacks."""


class UnknownPrimitive(ScheduleError):
    """No primitive of this name exists."""


class BadScheduleText(ScheduleError):
    """A text is no schedule: damaged JSON, another version, an unknown step or option."""


class ScheduleNotApplied(ScheduleError):
    """Lowering dropped a step: the generated code does not show its effect."""
