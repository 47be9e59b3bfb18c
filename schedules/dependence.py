"""Dependences among the statements of a loop: which tiles each reads and writes, and what that forbids.

A statement of stage ``s`` runs iteration ``i`` in step ``i + s``; within a step statements run in order. A statement of
iteration ``i`` must precede another of iteration ``i + distance`` whenever both touch a tile and one of them writes it.
A tile that every iteration writes whole before it reads it carries nothing from one iteration to the next: with ``n``
slots of it, iterations up to ``n - 1`` apart may overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dsl import Entry, Operation, gemm_of, is_call, operation_of, tirx
from tilewright.errors import SourceSpan

UNBOUNDED = 1 << 30  # slots of a tile that lowering copies as often as the stages need
_SYNCHRONISING = ("sync", "barrier", "wait", "arrive", "extern", "set_max_nreg")


@dataclass(frozen=True)
class Tile:
    """A piece of memory that statements touch; views of it are the same tile."""

    key: int
    name: str
    scope: str

    @property
    def shared(self) -> bool:
        """Whether it lies in shared memory."""
        return self.scope.startswith("shared")


@dataclass(frozen=True, eq=False)
class Statement:
    """One statement of a loop body with the tiles it touches; ``covers`` are those it writes whole without reading."""

    entry: Entry
    reads: frozenset[Tile]
    writes: frozenset[Tile]
    covers: frozenset[Tile]
    orders_all: bool

    @property
    def label(self) -> str:
        """Its handle."""
        return self.entry.label

    @property
    def span(self) -> SourceSpan | None:
        """Its source line."""
        return self.entry.span

    @property
    def touches(self) -> frozenset[Tile]:
        """All tiles it reads or writes."""
        return self.reads | self.writes

    @property
    def loads(self) -> frozenset[Tile]:
        """The shared tiles it fills from global memory, when that is all it does."""
        if not is_call(self.entry.node) or any(tile.scope != "global" for tile in self.reads):
            return frozenset()
        return self.writes if self.reads and all(tile.shared for tile in self.writes) else frozenset()


@dataclass(frozen=True, eq=False)
class Dependence:
    """``first`` of iteration i runs before ``second`` of iteration i + ``distance``, because of ``tile``."""

    first: Statement
    second: Statement
    distance: int
    tile: Tile | None

    def reason(self) -> str:
        """In words, for messages."""
        if self.tile is None:
            return f"{self.first.label!r} orders everything around it"
        name, iteration = self.tile.name, "the same" if self.distance == 0 else "an earlier"
        if self.tile in self.first.writes and self.tile in self.second.reads:
            return f"{self.second.label!r} reads {name}, which {self.first.label!r} writes in {iteration} iteration"
        if self.tile in self.first.writes:
            return (
                f"{self.second.label!r} overwrites {name}, which {self.first.label!r} writes in {iteration} iteration"
            )
        return (
            f"{self.second.label!r} overwrites {name}, which {self.first.label!r} still reads in {iteration} iteration"
        )


def statements_of(loop: Entry) -> tuple[Statement, ...]:
    """The statements of a loop's body, in order."""
    return tuple(statement_of(entry) for entry in loop.children)


def statement_of(entry: Entry) -> Statement:
    """One statement with its accesses."""
    walk = _Walk()
    tirx.stmt_functor.post_order_visit(entry.node, walk.visit)
    reads, writes = walk.found()
    covers = {key for key in _covered(entry) if writes.get(key) is not None and key not in reads}
    return Statement(
        entry,
        frozenset(reads.values()),
        frozenset(writes.values()),
        frozenset(writes[key] for key in covers),
        walk.orders_all,
    )


def private_tiles(statements: Sequence[Statement]) -> frozenset[Tile]:
    """The tiles whose first access in an iteration writes them whole; nothing in them outlives an iteration."""
    first: dict[Tile, bool] = {}
    for statement in statements:
        for tile in statement.touches:
            first.setdefault(tile, tile in statement.covers)
    return frozenset(tile for tile, covered in first.items() if covered and tile.scope != "global")


def dependences_of(
    statements: Sequence[Statement], slots: Callable[[Tile], int] = lambda tile: 1
) -> tuple[Dependence, ...]:
    """All dependences of a loop body; ``slots`` says how many copies of a private tile there are."""
    private = private_tiles(statements)
    found: list[Dependence] = []
    for place, later in enumerate(statements):
        for earlier in statements[:place]:
            for tile in _shared_writes(earlier, later):
                distance = slots(tile) if tile in private else 1
                found.append(Dependence(earlier, later, 0, tile))
                found.append(Dependence(later, earlier, distance, tile))
            if earlier.orders_all or later.orders_all:
                found.append(Dependence(earlier, later, 0, None))
                found.append(Dependence(later, earlier, 1, None))
    return tuple(found)


def broken(
    dependences: Sequence[Dependence], order: Mapping[str, int], stages: Mapping[str, int]
) -> tuple[Dependence, ...]:
    """The dependences that an order and stages of statements, by label, break."""
    return tuple(
        edge
        for edge in dependences
        if (stages[edge.first.label], order[edge.first.label])
        >= (stages[edge.second.label] + edge.distance, order[edge.second.label])
    )


def ordered(dependences: Sequence[Dependence], wished: Sequence[str], stages: Mapping[str, int]) -> tuple[str, ...]:
    """The order nearest to ``wished`` that respects all dependences under ``stages``; empty when there is none."""
    before: dict[str, set[str]] = {label: set() for label in wished}
    for edge in dependences:
        lead = stages[edge.second.label] + edge.distance - stages[edge.first.label]
        if lead < 0:
            return ()
        if lead == 0:
            before[edge.second.label].add(edge.first.label)
    result: list[str] = []
    waiting = list(wished)
    while waiting:
        ready = next((label for label in waiting if before[label] <= set(result)), None)
        if ready is None:
            return ()
        result.append(ready)
        waiting.remove(ready)
    return tuple(result)


def needed_by(statements: Sequence[Statement], label: str) -> frozenset[str]:
    """The statements whose results of the same iteration ``label`` needs, itself among them."""
    needed = {label}
    wanted: set[Tile] = set()
    for statement in reversed(statements):
        if statement.label in needed or wanted & statement.writes:
            needed.add(statement.label)
            wanted = (wanted - statement.covers) | {tile for tile in statement.reads if tile.scope != "global"}
    return frozenset(needed)


def _shared_writes(one: Statement, other: Statement) -> list[Tile]:
    both = (one.writes & other.touches) | (one.reads & other.writes)
    return sorted(both, key=lambda tile: tile.name)


@dataclass
class _Walk:
    """Collects accesses; element accesses inside an operand of a tile operation are the operand, not a load."""

    operands: list[Any]
    loads: list[Any]
    reads: dict[int, Tile]
    writes: dict[int, Tile]
    orders_all: bool = False

    def __init__(self) -> None:
        self.operands, self.loads, self.reads, self.writes = [], [], {}, {}

    def visit(self, node: Any) -> None:
        """Take one node in."""
        if isinstance(node, tirx.BufferLoad):
            self.loads.append(node)
        elif isinstance(node, tirx.BufferStore):
            self._add(self.writes, node.buffer)
        elif isinstance(node, tirx.Evaluate) and is_call(node):
            self._call(node.value)
        elif isinstance(node, tirx.Call) and str(getattr(node.op, "name", "")) in ("tl.region", "tl.access_ptr"):
            self.operands.append(node.args[0])

    def _call(self, call: Any) -> None:
        operation = operation_of(call)
        self.orders_all |= any(word in operation.name for word in _SYNCHRONISING) or not operation.regions
        for position, region in enumerate(operation.regions):
            access = _access(operation, position)
            if "r" in access:
                self._add(self.reads, region.buffer)
            if "w" in access:
                self._add(self.writes, region.buffer)

    def found(self) -> tuple[dict[int, Tile], dict[int, Tile]]:
        """Tiles read and written, by key."""
        inside = {hash(operand) for operand in self.operands}
        for load in self.loads:
            if hash(load) not in inside:
                self._add(self.reads, load.buffer)
        return self.reads, self.writes

    def _add(self, where: dict[int, Tile], buffer: Any) -> None:
        key = hash(buffer.data)
        where.setdefault(key, Tile(key, str(buffer.name), str(buffer.scope())))


def _access(operation: Operation, position: int) -> str:
    """How an operation uses an operand; a cleared accumulator or result is written only."""
    cleared = operation.name.startswith("reduce_") and position == 1 and operation.values[2] is True
    if cleared or (operation.name == "gemm" and position == 2 and gemm_of(operation).clear):
        return "w"
    access = operation.regions[position].access
    accumulates = operation.name.startswith("reduce_") and position == 1
    return "rw" if access == "?" or accumulates else access


def _covered(entry: Entry) -> frozenset[int]:
    """Keys of the buffers that a statement writes whole."""
    if is_call(entry.node):
        operation = operation_of(entry.node.value)
        return frozenset(
            hash(region.buffer.data)
            for position, region in enumerate(operation.regions)
            if region.whole and _access(operation, position) == "w"
        )
    extents: dict[Any, Any] = {}
    inner = entry.node
    while isinstance(inner, tirx.For) and int(inner.kind) == tirx.ForKind.PARALLEL:
        extents[hash(inner.loop_var)] = inner.extent
        inner = inner.body
    if not isinstance(inner, tirx.BufferStore) or len(inner.indices) != len(extents):
        return frozenset()
    whole = all(
        hash(index) in extents and str(extents[hash(index)]) == str(extent)
        for index, extent in zip(inner.indices, inner.buffer.shape, strict=True)
    )
    return frozenset({hash(inner.buffer.data)} if whole else ())
