"""A launch divided into a producer that loads shared tiles and consumers that compute, as TileLang's ``WSSchedule``.

Every load has a pipeline of its own: full and empty barriers for each slot of its tile. A consumer waits for a slot
right before the first statement that touches the tile and releases it right behind the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.dsl import Entry, Loop, Program, keep_span, tirx
from tilewright.dsl import language as T
from tilewright.dsl import rewrite as edit

from .arrangement import Arrangement, arrangement_of, is_arranged, without_order
from .dependence import Statement, Tile, statement_of
from .errors import IllegalStep
from .primitive import Primitive, written

CONSUMER, PRODUCER, JOIN = "consumer", "producer", " + "
SCHEDULE, OP_ID = "tl.ws_schedule", "tl.ws_op_id"
GROUP = 128  # threads of a warpgroup
# TileLang lets one thread of the producer issue a load, and all its warps wait for the slot: a warp that comes late
# would miss the barrier's phase, so they gather here before the load
GATHER = 7


@dataclass(frozen=True, eq=False)
class _Part:
    """What a consumer runs as one operation: its name, its statements, the iteration it lags, the tiles it touches."""

    name: str
    statements: tuple[Statement, ...]
    stage: int

    @property
    def touches(self) -> frozenset[Tile]:
        return frozenset(tile for statement in self.statements for tile in statement.touches)


@dataclass(eq=False)
class Division:
    """The pipelines and scopes of a program on their way to a ``WSSchedule``."""

    step: Primitive
    program: Program
    pipelines: list[Any] = field(default_factory=list)
    scopes: list[Any] = field(default_factory=list)

    def scope(self, name: str, entries: Iterable[Entry], loop: Entry | None) -> list[Any]:
        """Divide the statements of a scope; the statements with their names, loads first."""
        statements = [statement_of(entry) for entry in entries]
        plan = self._arranged(loop, statements)
        loads = [plan.statement(label) for label in plan.loads] if plan else [s for s in statements if s.loads]
        depth = plan.depth if plan else 1
        producer: list[Any] = []
        consumer: list[Any] = []
        body: list[Any] = []
        shared = [s for s in statements if s.entry.kind == "let" or _child_scope(s.entry)]
        parts = list(self._parts(plan, statements, loads))
        spans = {tile: self._pipeline(load, tile, depth) for load in loads for tile in load.loads}
        for statement in shared:
            producer.append(statement.label)
        for load in loads:
            pipe = next(spans[tile] for tile in load.loads)
            together = f"gather for {load.label}"
            steps = [T.WSSync.producer_acquire(pipe), together, load.label, T.WSSync.producer_commit(pipe)]
            body.append(_named(together, [tirx.Evaluate(T.sync_threads(GATHER, GROUP))]))
            place = _before_child(producer, load, statements)
            producer[place:place] = steps
        for part in parts:
            opened = [tile for tile in part.touches if tile in spans and _first(tile, parts) is part]
            closed = [tile for tile in part.touches if tile in spans and _last(tile, parts) is part]
            consumer += [T.WSSync.consumer_wait(spans[tile], part.stage) for tile in _by_name(opened)]
            consumer.append(part.name)
            consumer += [T.WSSync.consumer_release(spans[tile], part.stage) for tile in _by_name(closed)]
        self._require_used(loads, parts, spans)
        body += [_named(load.label, [load.entry.node]) for load in loads]
        places = [statement.label for statement in statements]
        # in the order of the program, for the checks that read it; roles run their statements by name
        for part in sorted(parts, key=lambda part: max(places.index(one.label) for one in part.statements)):
            child = part.statements[0].entry
            body.append(self._child(child) if _child_scope(child) else _named(part.name, _nodes(part)))
        self.scopes.append(T.WSScope(name, {PRODUCER: producer, CONSUMER: consumer}))
        return body

    def schedule(self, consumers: int, registers: tuple[int, int]) -> Any:
        """The ``WSSchedule``: consumers in the first warps, the producer in the warpgroup behind them."""
        warps = 4 * consumers
        return T.WSSchedule(
            num_warps=warps + 4,
            roles=[
                T.WSRole(CONSUMER, warps_lo=0, warps_hi=warps, max_nreg=registers[1]),
                T.WSRole(PRODUCER, warps_lo=warps, warps_hi=warps + 4, max_nreg=registers[0]),
            ],
            pipelines=self.pipelines,
            scopes=self.scopes[::-1],
        )

    def _arranged(self, loop: Entry | None, statements: list[Statement]) -> Arrangement | None:
        if loop is None or not isinstance(loop.detail, Loop):
            return None
        if loop.detail.stages is None and not is_arranged(loop.detail):
            return None
        plan = arrangement_of(self.step, self.program, loop.label)
        begin = loop.node.min
        if any(plan.stages.values()) and not (isinstance(begin, tirx.IntImm) and int(begin) == 0):
            raise IllegalStep(
                f"{written(self.step)}: loop {loop.label!r} begins at {begin}, and stages of roles count from 0",
                span=loop.span,
                remedy="let the loop begin at 0, or leave its stages out",
            )
        return plan

    def _parts(self, plan: Arrangement | None, statements: list[Statement], loads: list[Statement]) -> Iterator[_Part]:
        if plan is None:
            for statement in statements:
                if statement.label not in {load.label for load in loads}:
                    yield _Part(statement.label, (statement,), 0)
            return
        tiles = frozenset(tile for load in loads for tile in load.loads)
        run: list[Statement] = []
        for label, following in zip(plan.computing, (*plan.computing[1:], None), strict=True):
            stage = plan.stages[label]
            run.append(plan.statement(label))
            if stage and following is not None and plan.stages[following] == stage:
                continue
            yield from self._run(run, stage, tiles)
            run = []

    def _run(self, run: list[Statement], stage: int, tiles: frozenset[Tile]) -> Iterator[_Part]:
        """The parts of a run of statements of one stage; only what touches a pipeline can lag behind."""
        if not stage or all(statement.touches & tiles for statement in run):
            for statement in run:
                yield _Part(statement.label, (statement,), stage)
            return
        whole = _Part(JOIN.join(statement.label for statement in run), tuple(run), stage)
        if not whole.touches & tiles:
            raise IllegalStep(
                f"{written(self.step)}: {run[0].label!r} is of stage {stage} but no statement beside it touches a tile "
                "that the producer loads, and barriers of such tiles are what roles count iterations by",
                span=run[0].span,
                remedy="order it next to the statement of its stage that reads a loaded tile",
            )
        yield whole

    def _pipeline(self, load: Statement, tile: Tile, depth: int) -> str:
        name = f"pipe_{tile.name}"
        buffers = [buffer for buffer in _buffers(load.entry.node) if hash(buffer.data) == tile.key]
        self.pipelines.append(T.WSPipeline(name, buffers[:1], depth))
        return name

    def _require_used(self, loads: list[Statement], parts: list[_Part], spans: Mapping[Tile, str]) -> None:
        for load in loads:
            for tile in load.loads:
                stages = {part.stage for part in parts if tile in part.touches}
                if len(stages) == 1 and tile in spans:
                    continue
                what = "no consumer touches" if not stages else "consumers touch in several stages"
                raise IllegalStep(
                    f"{written(self.step)}: {load.label!r} loads {tile.name}, which {what}",
                    span=load.span,
                    remedy="let the statements that touch it have one stage",
                )

    def _child(self, entry: Entry) -> Any:
        body = self.scope(entry.label, entry.children, entry)
        loop = entry.node
        annotations = {**without_order(dict(loop.annotations.items())), OP_ID: entry.label}
        return edit.with_loop(loop, body=_sequence(body), annotations=annotations)


def _child_scope(entry: Entry) -> bool:
    """Whether an entry is a serial loop in which something is loaded."""
    detail = entry.detail
    if not isinstance(detail, Loop) or detail.kind not in ("serial", "pipelined"):
        return False
    return any(_child_scope(child) or statement_of(child).loads for child in entry.children)


def _before_child(producer: list[Any], load: Statement, statements: list[Statement]) -> int:
    """Where a load goes among the producer's steps: behind the scalars and loops that precede it in the program."""
    labels = [statement.label for statement in statements]
    earlier = set(labels[: labels.index(load.label)])
    places = [place for place, step in enumerate(producer) if isinstance(step, str) and step in earlier]
    if not places:
        return 0
    last = places[-1] + 1
    return last + (1 if last < len(producer) and not isinstance(producer[last], str) and last > 1 else 0)


def _first(tile: Tile, parts: list[_Part]) -> _Part:
    return next(part for part in parts if tile in part.touches)


def _last(tile: Tile, parts: list[_Part]) -> _Part:
    return next(part for part in reversed(parts) if tile in part.touches)


def _by_name(tiles: list[Tile]) -> list[Tile]:
    return sorted(tiles, key=lambda tile: tile.name)


def _nodes(part: _Part) -> list[Any]:
    return [statement.entry.node for statement in part.statements]


def _named(name: str, nodes: list[Any]) -> Any:
    new = tirx.AttrStmt(None, OP_ID, tirx.StringImm(name), _sequence(nodes))
    return keep_span(new, nodes[0])


def _sequence(nodes: list[Any]) -> Any:
    return nodes[0] if len(nodes) == 1 else tirx.SeqStmt(nodes)


def _buffers(stmt: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferLoad):
            found.append(node.buffer)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return found


def divided(step: Primitive, program: Program, grid: Entry, consumers: int, registers: tuple[int, int]) -> Program:
    """The program with roles: its root block carries the ``WSSchedule``, its statements their names.

    Raises:
        IllegalStep: nothing is loaded, or stages that roles cannot keep.
    """
    division = Division(step, program)
    inner = [entry for entry in grid.children if entry.kind != "buffer"]
    attributes = []
    while len(inner) == 1 and inner[0].kind == "attribute":
        attributes.append(inner[0].node)
        inner = list(inner[0].children)
    body = _sequence(division.scope(T.WSScope.ROOT, inner, None))
    if not division.pipelines:
        raise IllegalStep(
            f"{written(step)}: {program.name} loads no shared tile, so there is nothing for a producer to do",
            span=grid.span,
            remedy="leave the step out",
        )
    for attribute in reversed(attributes):
        wrapped = tirx.AttrStmt(attribute.node, attribute.attr_key, attribute.value, body)
        body = keep_span(wrapped, attribute)
    schedule = division.schedule(consumers, registers)

    def rebuilt(block: Any) -> Any:
        annotations = {**dict(block.annotations.items()), SCHEDULE: schedule}
        return edit.with_block(block, body=body, annotations=annotations)

    return edit.replace(program, edit.root_block(grid.node), rebuilt)
