"""Where open tiles live when no step says so: inferred from use, or refused with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from tilewright.dsl import OPEN_SCOPE, Entry, Operation, Program, buffers, gemm_of, tirx

from .errors import CannotPlace

SHARED, FRAGMENT = "shared.dyn", "local.fragment"
WORDS = {SHARED: "shared memory", FRAGMENT: "a fragment (registers)"}
_COPIES = ("copy", "async_copy", "tma_copy")
_GEMMS = ("gemm", "wgmma_gemm")
REDUCTIONS = ("reduce_", "cumsum", "cummax")  # of fragments


@dataclass(frozen=True)
class Placement:
    """One open tile's place: its name, a scope of TileLang, and the use that decided."""

    tile: str
    scope: str
    reason: str

    def __str__(self) -> str:
        return f"{self.tile} in {WORDS[self.scope]}: {self.reason}"


@dataclass
class _Use:
    """What is done with one open tile."""

    entry: Entry
    accumulator: str = ""
    reduced: str = ""  # a reduction reads or writes it, in registers
    left: str = ""  # operand A of a product, which registers can hold
    right: str = ""  # operand B, which they cannot
    computed: bool = False  # written by something else than a copy from memory
    scattered: str = ""  # an access that any thread may make at any element
    used: bool = False


def open_tiles(program: Program, except_for: Collection[str] = ()) -> tuple[Entry, ...]:
    """The tiles that are still open and not among ``except_for``, in order."""
    found = (entry for entry in program.outline().buffers if str(entry.node.scope()) == OPEN_SCOPE)
    return tuple(entry for entry in found if entry.label not in except_for)


def default_placements(program: Program, except_for: Collection[str] = ()) -> tuple[Placement, ...]:
    """The place of every open tile but those that steps place (``except_for``).

    An operand of a matrix product lives in shared memory; so does a tile that is indexed by anything but loop
    variables of its own. The accumulator and everything computed elementwise or reduced live in a fragment, also where
    it then is operand A of a product.

    Raises:
        CannotPlace: a tile that nothing uses, or that different uses pull apart.
    """
    return tuple(_placed(use) for use in _uses(program, except_for))


def place_open(program: Program, except_for: Collection[str] = ()) -> Program:
    """The program with every open tile in its default place; the same object when there is none.

    Raises:
        CannotPlace: as ``default_placements``.
    """
    tiles = open_tiles(program, except_for)
    if not tiles:
        return program
    scopes = [placement.scope for placement in default_placements(program, except_for)]
    for entry, scope in zip(tiles, scopes, strict=True):
        program = buffers.swap_buffer(program, entry.node, buffers.with_scope(entry.node, scope))
    return program


def _placed(use: _Use) -> Placement:
    name, where = use.entry.label, use.entry.span
    if not use.used:
        raise CannotPlace(
            f"open tile {name!r} is used by nothing, so its place cannot be inferred", span=where,
            remedy="remove it, or say where it lives with place()",
        )  # fmt: skip
    needs = f"accumulator of {use.accumulator}" if use.accumulator else use.reduced
    if needs and (use.right or use.scattered):
        other = f"operand B of {use.right}" if use.right else use.scattered
        raise CannotPlace(
            f"open tile {name!r} has no place that suits all its uses", span=where,
            values={"needs a fragment": needs, "needs shared memory": other},
            remedy="copy it into a second tile for one of the uses",
        )  # fmt: skip
    if use.accumulator:
        return Placement(name, FRAGMENT, f"accumulator of {use.accumulator}")
    if use.right:
        return Placement(name, SHARED, f"operand B of {use.right}")
    if use.scattered:
        return Placement(name, SHARED, use.scattered)
    if use.left and not use.computed:
        return Placement(name, SHARED, f"operand A of {use.left}")
    if use.left:
        return Placement(name, FRAGMENT, f"computed in registers, then operand A of {use.left}")
    return Placement(name, FRAGMENT, "computed elementwise")


def _uses(program: Program, except_for: Collection[str]) -> list[_Use]:
    uses = [_Use(entry) for entry in open_tiles(program, except_for)]
    for entry in program.outline().walk():
        if isinstance(entry.detail, Operation):
            for use in uses:
                _operation(use, entry.label, entry.detail)
        elif entry.kind in ("loop", "store", "let", "if") and not entry.children:
            for use in uses:
                _elementwise(use, entry)
    return uses


def _operation(use: _Use, label: str, operation: Operation) -> None:
    mine = [region for region in operation.regions if region.buffer.same_as(use.entry.node)]
    if not mine:
        return
    use.used = True
    if operation.name in _GEMMS:
        gemm = gemm_of(operation)
        tile = use.entry.node
        use.accumulator = label if gemm.c.buffer.same_as(tile) else use.accumulator
        use.left = label if gemm.a.buffer.same_as(tile) else use.left
        use.right = label if gemm.b.buffer.same_as(tile) else use.right
    elif operation.name in _COPIES:
        source, target = operation.regions
        from_memory = source.scope in ("global", SHARED)
        use.computed = use.computed or (target.buffer.same_as(use.entry.node) and not from_memory)
    elif operation.name.startswith(REDUCTIONS):
        use.reduced, use.computed = label, True
    elif operation.name.startswith("atomic"):
        use.scattered = f"{label} reaches it from any thread"
    elif any("w" in region.access for region in mine):
        use.computed = use.computed or operation.name not in ("clear", "fill")


def _elementwise(use: _Use, entry: Entry) -> None:
    variables = _variables(entry.node)
    for node in _accesses(entry.node, use.entry.node):
        use.used = True
        use.computed = use.computed or isinstance(node, tirx.BufferStore)
        if not _regular(node.indices, variables):
            use.scattered = f"{entry.label} indexes it by more than a loop variable in each dimension"


def _variables(node: Any) -> list[Any]:
    variables = []
    while isinstance(node, tirx.For):
        variables.append(node.loop_var)
        node = node.body
    return variables


def _accesses(stmt: Any, tile: Any) -> Iterator[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, (tirx.BufferLoad, tirx.BufferStore)) and node.buffer.same_as(tile):
            found.append(node)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return iter(found)


def _regular(indices: Any, variables: list[Any]) -> bool:
    """Whether each index is a loop variable, in the order of the loops, or a constant."""
    positions = []
    for index in indices:
        if isinstance(index, tirx.IntImm):
            continue
        position = [at for at, variable in enumerate(variables) if index.same_as(variable)]
        if not position:
            return False
        positions.append(position[0])
    return positions == sorted(set(positions))
