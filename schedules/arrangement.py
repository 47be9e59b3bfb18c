"""The order and stages of a loop's statements: read from a loop, checked, and written on it for the software pipeline.

A load runs ``depth - 1`` iterations ahead of what computes. Among what computes, a statement of stage ``s`` works on
iteration ``i - s`` while those of stage 0 work on iteration ``i``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dsl import Entry, Loop, Program, Target, tirx
from tilewright.dsl import rewrite as edit

from .dependence import UNBOUNDED, Statement, Tile, broken, dependences_of, statements_of
from .errors import IllegalStep, UnknownHandle
from .evidence import LINES
from .handles import find
from .primitive import Primitive, written

DEPTH = "num_stages"
# TileLang's two ways to take an order: with TMA only the second leaves all warps in one role
_KEYS = ("tl_pipeline_order", "tl_pipeline_stage")
_TMA_KEYS = ("software_pipeline_order", "software_pipeline_stage")
_TMA_COPIES, _SLOTS = "software_pipeline_tma_copies", "tl_pipelined_num_stages"
_DEFAULT_DEPTH = 2


@dataclass(frozen=True, eq=False)
class Arrangement:
    """A loop with its statements in program order, and how they are to run.

    Attributes:
        loop: the loop.
        statements: all statements, loads too, in program order.
        depth: slots of the tiles that loads fill.
        order: labels of all statements in the order of execution, loads first where ``depth`` is more than one.
        stages: stage of each statement that computes, by label; loads are not in it.
    """

    loop: Entry
    statements: tuple[Statement, ...]
    depth: int
    order: tuple[str, ...]
    stages: Mapping[str, int]

    @property
    def loads(self) -> tuple[str, ...]:
        """Labels of the loads, in order."""
        return tuple(label for label in self.order if label not in self.stages)

    @property
    def computing(self) -> tuple[str, ...]:
        """Labels of what computes, in order."""
        return tuple(label for label in self.order if label in self.stages)

    def statement(self, label: str) -> Statement:
        """The statement of this label."""
        return next(statement for statement in self.statements if statement.label == label)


def arrangement_of(step: Primitive, program: Program, label: str) -> Arrangement:
    """How the statements of a loop run so far.

    Raises:
        UnknownHandle: no loop has this name.
        IllegalStep: the loop is no serial loop, or holds statements that have no place of their own.
    """
    entry = find(step, program, label, "loop")
    detail = entry.detail
    assert isinstance(detail, Loop)
    if detail.kind not in ("serial", "pipelined"):
        raise IllegalStep(
            f"{written(step)}: loop {label!r} is {detail.kind}, only statements of a serial loop have an order",
            span=entry.span,
            remedy="name the loop that runs over tiles",
        )
    statements = statements_of(entry)
    if len(statements) != len(edit.statements(entry.node.body)) or any(s.entry.kind == "let" for s in statements):
        raise IllegalStep(
            f"{written(step)}: loop {label!r} binds scalars, whose place among its statements is not free",
            span=entry.span,
            remedy="compute them before the loop",
        )
    return _read(entry, detail, statements)


def _read(entry: Entry, detail: Loop, statements: tuple[Statement, ...]) -> Arrangement:
    labels = [statement.label for statement in statements]
    loads = [statement.label for statement in statements if statement.loads]
    order_key, stage_key = _TMA_KEYS if _TMA_KEYS[0] in detail.annotations else _KEYS
    if order_key not in detail.annotations:
        depth = detail.stages or (_DEFAULT_DEPTH if loads else 1)
        order = (*loads, *(label for label in labels if label not in loads))
        return Arrangement(entry, statements, depth, order, {label: 0 for label in labels if label not in loads})
    places: Any = detail.annotations[order_key]
    raw: Any = detail.annotations[stage_key]
    order = tuple(label for _, label in sorted(zip(map(int, places), labels, strict=True)))
    stages = {label: int(stage) for label, stage in zip(labels, raw, strict=True) if label not in loads}
    lead = min(stages.values())
    return Arrangement(entry, statements, lead + 1, order, {label: stage - lead for label, stage in stages.items()})


def listed(step: Primitive, arrangement: Arrangement, label: str) -> str:
    """The full label of a statement of the loop; a part of it does when no other statement has it.

    Raises:
        UnknownHandle: no statement, or more than one, has this name.
    """
    statements = arrangement.statements
    exact = [statement.label for statement in statements if statement.label == label]
    found = exact or [statement.label for statement in statements if label in statement.entry.names]
    if len(found) != 1:
        raise UnknownHandle(
            f"{written(step)}: {label!r} names {len(found)} statements of loop {arrangement.loop.label!r}",
            span=arrangement.loop.span,
            remedy=f"its statements are {', '.join(statement.label for statement in statements)}",
        )
    return found[0]


def require_legal(step: Primitive, arrangement: Arrangement) -> None:
    """Refuse an order that breaks a dependence; shared tiles that loads fill have as many slots as they need.

    Raises:
        IllegalStep: naming both statements, the tile, and the line of the second.
    """
    edges = dependences_of(arrangement.statements, slots_of(arrangement.statements))
    stages = execution_stages(arrangement)
    order = {label: place for place, label in enumerate(arrangement.order)}
    wrong = broken(edges, order, stages)
    if not wrong:
        return
    edge = next((edge for edge in wrong if edge.distance == 0), wrong[0])
    raise IllegalStep(
        f"{written(step)}: {edge.reason()}, but would run before it",
        span=edge.second.span,
        values=_values(edge.tile, edge.first, edge.second, arrangement),
        remedy=f"put {edge.first.label!r} first, or give {edge.second.label!r} a later stage",
    )


def slots_of(statements: Sequence[Statement]) -> Callable[[Tile], int]:
    """How many versions a tile has: as many as needed where one load alone fills it, else one."""
    writers = [tile for statement in statements for tile in statement.writes]
    loaded = {tile for statement in statements for tile in statement.loads if writers.count(tile) == 1}
    return lambda tile: UNBOUNDED if tile in loaded else 1


def _values(tile: Tile | None, first: Statement, second: Statement, arrangement: Arrangement) -> dict[str, object]:
    return {
        "tile": "none" if tile is None else f"{tile.name} ({tile.scope}, one version)",
        first.label: f"stage {arrangement.stages.get(first.label, 'of loads')}",
        second.label: f"stage {arrangement.stages.get(second.label, 'of loads')}",
    }


def execution_stages(arrangement: Arrangement) -> dict[str, int]:
    """The stage of every statement counted from the loads, which run first."""
    lead = arrangement.depth - 1
    stages = {label: stage + lead for label, stage in arrangement.stages.items()}
    for label in arrangement.loads:
        tiles = arrangement.statement(label).loads
        users = [other for other in arrangement.computing if tiles & arrangement.statement(other).touches]
        first = min((arrangement.stages[other] for other in users), default=0)
        stages[label] = 0 if lead else first
    return stages


def with_order(
    step: Primitive,
    program: Program,
    target: Target,
    before: Arrangement,
    order: Sequence[str],
    stages: Mapping[str, int],
) -> Program:
    """The program with the loop's order and stages written on it.

    Raises:
        IllegalStep: the order breaks a dependence.
    """
    lead = min(stages.values())
    computing = list(order)
    loads = [label for label in before.loads if label not in computing]
    first = [label for label in computing if label not in stages] + loads
    if before.depth == 1:
        first = []
        for load in before.loads:
            users = [x for x in computing if before.statement(load).loads & before.statement(x).touches and x != load]
            computing = [x for x in computing if x != load]
            computing.insert(computing.index(users[0]) if users else 0, load)
    final = (*first, *(label for label in computing if label not in first))
    after = Arrangement(
        before.loop, before.statements, before.depth, final, {label: stage - lead for label, stage in stages.items()}
    )
    require_legal(step, after)
    require_long_enough(step, after)
    return annotated(program, target, after)


def annotated(program: Program, target: Target, arrangement: Arrangement) -> Program:
    """The program with the arrangement as annotations of its loop; its order of lines is left for the proof."""
    stages = execution_stages(arrangement)
    places = {label: place for place, label in enumerate(arrangement.order)}
    labels = [statement.label for statement in arrangement.statements]
    # TileLang's barriers of TMA loads fit their order in the program only; in another, cp.async does the loads
    by_tma = target.has_tma and arrangement.loads == tuple(label for label in labels if label in arrangement.loads)
    order_key, stage_key = _TMA_KEYS if by_tma else _KEYS
    values: dict[str, object] = {
        DEPTH: None,
        order_key: [places[label] for label in labels],
        stage_key: [stages[label] for label in labels],
    }
    if by_tma:
        values[_TMA_COPIES] = [int(label in arrangement.loads) for label in labels]
        values[_SLOTS] = max(stages.values()) + 1
    program = edit.annotate_loop(program, arrangement.loop.node, values)
    lines = " ".join(map(str, _lines(arrangement)))
    return program.with_func(program.func.with_attr(LINES + arrangement.loop.label, lines))


def require_long_enough(step: Primitive, arrangement: Arrangement) -> None:
    """Refuse an order for a loop that is known to be shorter than its stages.

    Raises:
        IllegalStep: naming the loop's line and both counts.
    """
    extent = arrangement.loop.node.extent
    needed = max(execution_stages(arrangement).values())
    if isinstance(extent, tirx.IntImm) and int(extent) < needed:
        raise IllegalStep(
            f"{written(step)}: loop {arrangement.loop.label!r} runs fewer times than its statements have stages",
            span=arrangement.loop.span,
            values={"trips": int(extent), "stages": needed + 1},
            remedy="use fewer slots or stages, or leave the step out",
        )


def _lines(arrangement: Arrangement) -> tuple[int, ...]:
    """Source lines of what computes, in order, where one statement alone has the line."""
    found = [span.line for x in arrangement.computing if (span := arrangement.statement(x).span) is not None]
    return tuple(line for line in found if found.count(line) == 1)


def is_arranged(loop: Loop) -> bool:
    """Whether a loop carries an order."""
    return _KEYS[0] in loop.annotations or _TMA_KEYS[0] in loop.annotations


def last_stage(loop: Loop) -> int:
    """The last stage of an ordered loop where some statement is between the first and the last, else 0."""
    raw: Any = loop.annotations.get(_KEYS[1], loop.annotations.get(_TMA_KEYS[1], ()))
    stages = sorted({int(stage) for stage in raw})
    return stages[-1] if len(stages) > 2 else 0


def without_order(annotations: Mapping[str, object]) -> dict[str, object]:
    """A loop's annotations without those of order and depth."""
    gone = (DEPTH, *_KEYS, *_TMA_KEYS, _TMA_COPIES, _SLOTS)
    return {key: value for key, value in annotations.items() if key not in gone}
