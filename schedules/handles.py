"""Looking up what a step acts on, with errors that name the step."""

from __future__ import annotations

from tilewright.dsl import Program
from tilewright.dsl.errors import AmbiguousLabel, UnknownLabel
from tilewright.dsl.tree import Entry

from .errors import IllegalStep, IllegalValue, UnknownHandle
from .primitive import Primitive, written


def find(step: Primitive, program: Program, label: str, *kinds: str) -> Entry:
    """The outline's entry of this name.

    Raises:
        UnknownHandle: nothing, or more than one thing, has this name; the message lists the candidates.
    """
    try:
        return program.outline().find(label, *kinds)
    except (UnknownLabel, AmbiguousLabel) as error:
        raise UnknownHandle(
            f"{written(step)}: {error.what}", span=error.span, values=error.values, remedy=error.remedy
        ) from None


def grid(step: Primitive, program: Program) -> Entry:
    """The program's only launch.

    Raises:
        IllegalStep: the program launches nothing, or several times.
    """
    grids = program.outline().grids
    if len(grids) != 1:
        raise IllegalStep(
            f"{written(step)}: {program.name} has {len(grids)} launches, this step is for programs with one",
            span=grids[0].span if grids else None,
            remedy="split the program, one launch each",
        )
    return grids[0]


def whole_number(step: Primitive, option: str, value: object, low: int, high: int) -> None:
    """Refuse what is no whole number from ``low`` to ``high``.

    Raises:
        IllegalValue: the value is another.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise IllegalValue(
            f"{written(step)}: {option} must be a whole number from {low} to {high}",
            values={option: repr(value)},
        )
