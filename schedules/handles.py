"""Looking up what a step acts on, with errors that name the step."""

from __future__ import annotations

from tilewright.dsl import Grid, Operation, Program
from tilewright.dsl.errors import AmbiguousLabel, UnknownLabel
from tilewright.dsl.tree import Entry

from .errors import IllegalStep, IllegalValue, UnknownHandle
from .launches import ADDED
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
    """The program's only launch, those aside that steps added.

    Raises:
        IllegalStep: the program launches nothing, or several times.
    """
    grids = [entry for entry in program.outline().grids if not _added(entry)]
    if len(grids) != 1:
        raise IllegalStep(
            f"{written(step)}: {program.name} has {len(grids)} launches, this step is for programs with one",
            span=grids[0].span if grids else None,
            remedy="split the program, one launch each",
        )
    return grids[0]


def operation(step: Primitive, program: Program, label: str, *names: str) -> tuple[Entry, Operation]:
    """The outline's tile operation of this name, of the kinds ``names``.

    Raises:
        UnknownHandle: as ``find``.
        IllegalStep: it is another kind of operation.
    """
    entry = find(step, program, label, "op")
    detail = entry.detail
    if not isinstance(detail, Operation) or detail.name not in names:
        raise IllegalStep(
            f"{written(step)}: {entry.label!r} is no {' or '.join(names)}",
            span=entry.span,
            remedy=_candidates(program, names),
        )
    return entry, detail


def tile(step: Primitive, program: Program, label: str, *scopes: str) -> Entry:
    """The outline's buffer of this name, in one of these scopes.

    Raises:
        UnknownHandle: as ``find``.
        IllegalStep: it lives elsewhere.
    """
    entry = find(step, program, label, "buffer")
    scope = str(entry.node.scope())
    if scope not in scopes:
        raise IllegalStep(
            f"{written(step)}: {entry.label!r} is in {scope}, this step is for tiles in {' or '.join(scopes)}",
            span=entry.span,
            remedy="place() moves a tile",
        )
    return entry


def _candidates(program: Program, names: tuple[str, ...]) -> str:
    found = [e.label for e in program.outline().ops if isinstance(e.detail, Operation) and e.detail.name in names]
    return f"use {' or '.join(map(repr, found[:6]))}" if found else f"{program.name} has none"


def _added(entry: Entry) -> bool:
    return isinstance(entry.detail, Grid) and ADDED in entry.detail.annotations


def single_launch(step: Primitive, program: Program) -> Entry:
    """The program's only launch, none added by a step.

    Raises:
        IllegalStep: as ``grid``; or an earlier step added one.
    """
    added = [entry for entry in program.outline().grids if _added(entry)]
    if added:
        assert isinstance(added[0].detail, Grid)
        earlier = str(added[0].detail.annotations[ADDED]).strip('"')
        raise IllegalStep(
            f"{written(step)}: {earlier} made two launches of {program.name}",
            span=added[0].span,
            remedy=f"put this step before {earlier}",
        )
    return grid(step, program)


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
