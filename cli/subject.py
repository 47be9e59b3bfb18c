"""SUBJECT: an operator's name, or ``path.py:factory``."""

from __future__ import annotations

from .errors import unknown
from .factory_subject import factory_subject
from .operator_subject import operator_subject
from .trial import Choice, Subject


def subject_of(name: str) -> Subject:
    """The subject that a name stands for.

    Raises:
        UnknownName: neither an operator nor ``path.py:factory``; the message lists the operators.
        BadFile: the file cannot be read or run.
    """
    if ".py:" in name or name.endswith(".py"):
        return factory_subject(name)
    from tilewright.ops import OPERATORS

    if name not in OPERATORS:
        raise unknown("operator", name, OPERATORS)
    return operator_subject(OPERATORS[name])


def choice_of(target: str | None, schedule: str | None) -> Choice:
    """Target and schedule as given on the command line.

    Raises:
        UnknownTarget: no such target.
        BadFile: the schedule's file cannot be read.
    """
    from tilewright.dsl import Target

    from .files import load_schedule

    return Choice(Target(target) if target else Target.default(), load_schedule(schedule))
