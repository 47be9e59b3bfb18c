"""Constant indices, regions and loop extents that leave a buffer."""

from __future__ import annotations

from typing import Any

from .._tilelang import tirx
from ..errors import IndexOutOfRange
from ..operations import Operation, Region, buffer_shape, extent_of, shape_text
from ..spans import place, stmt_span
from ._context import Launch

_ON_CHIP = ("shared", "shared.dyn", "local.fragment", "local", "local.var")


def check_indices(launch: Launch) -> None:
    """Indices known now are inside their buffers.

    Checked are constants, and in shared memory and registers also the first and last value of a loop variable, where
    no condition guards the access. Global accesses with other indices are guarded at run time.

    Raises:
        IndexOutOfRange: one is not; negative indices down to minus the extent count from the end, as in Python.
    """
    _Walk().visit(launch.grid.node, {}, None)
    for placed, operation in launch.operations():
        _check_regions(operation, placed.span)


def _check_regions(operation: Operation, span: Any) -> None:
    for region in operation.regions:
        if region.scope not in _ON_CHIP:
            continue
        for dimension, (begin, extent, size) in enumerate(
            zip(region.begins, region.extents, buffer_shape(region.buffer), strict=False)
        ):
            start = extent_of(begin)
            if isinstance(start, int) and isinstance(extent, int) and isinstance(size, int) and start + extent > size:
                raise _leaves(region, dimension, start, extent, size, operation.label, span)


def _leaves(region: Region, dimension: int, start: int, extent: int, size: int, label: str, span: Any) -> Exception:
    return IndexOutOfRange(
        f"{label}: elements {start} to {start + extent - 1} of {region.name} along dimension {dimension} do not exist",
        span=span, values={f"{region.name}.shape": shape_text(buffer_shape(region.buffer))},
        remedy=f"dimension {dimension} has {size} elements; nothing guards on-chip accesses at run time",
    )  # fmt: skip


class _Walk:
    """Visits statements with the loops around them, and every access in their expressions."""

    def visit(self, stmt: Any, ranges: dict[Any, tuple[int, int]], guard: Any) -> None:
        """Visit one statement; ``ranges`` holds the first and last value of loop variables."""
        if isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq:
                self.visit(part, ranges, guard)
        elif isinstance(stmt, tirx.For):
            low, extent = extent_of(stmt.min), extent_of(stmt.extent)
            inner = dict(ranges)
            if isinstance(low, int) and isinstance(extent, int) and extent > 0:
                inner[stmt.loop_var] = (low, low + extent - 1)
            self.visit(stmt.body, inner, guard)
        elif isinstance(stmt, (tirx.IfThenElse, tirx.While)):
            self.visit(stmt.then_case if isinstance(stmt, tirx.IfThenElse) else stmt.body, ranges, stmt)
            if isinstance(stmt, tirx.IfThenElse) and stmt.else_case is not None:
                self.visit(stmt.else_case, ranges, stmt)
        elif isinstance(stmt, tirx.SBlockRealize):
            self.visit(stmt.block.body, ranges, guard)
        elif isinstance(stmt, tirx.AttrStmt):
            self.visit(stmt.body, ranges, guard)
        elif isinstance(stmt, (tirx.BufferStore, tirx.Bind, tirx.Evaluate)):
            self.leaf(stmt, {} if guard is not None else ranges)

    def leaf(self, stmt: Any, ranges: dict[Any, tuple[int, int]]) -> None:
        """Check the accesses of one simple statement."""
        accesses: list[Any] = []
        conditional = False

        def collect(node: Any) -> None:
            nonlocal conditional
            if isinstance(node, (tirx.BufferLoad, tirx.BufferStore)):
                accesses.append(node)
            elif isinstance(node, tirx.Select) or (isinstance(node, tirx.Call) and "if_then_else" in str(node.op.name)):
                conditional = True

        tirx.stmt_functor.post_order_visit(stmt, collect)
        for access in accesses:
            guarded = conditional and isinstance(access, tirx.BufferLoad)
            self.access(access, stmt, {} if guarded else ranges)

    def access(self, access: Any, stmt: Any, ranges: dict[Any, tuple[int, int]]) -> None:
        """Check one access."""
        shape = buffer_shape(access.buffer)
        on_chip = str(access.buffer.scope()) in _ON_CHIP
        if len(access.indices) != len(shape):
            raise IndexOutOfRange(
                f"{access.buffer.name} has {len(shape)} dimensions and is indexed with {len(access.indices)}",
                span=place(stmt_span(stmt)),
            )
        for dimension, (index, size) in enumerate(zip(access.indices, shape, strict=True)):
            bounds = _bounds(index, ranges if on_chip else {})
            if bounds is None or not isinstance(size, int) or (-size <= bounds[0] and bounds[1] < size):
                continue
            seen = f"{bounds[0]}" if bounds[0] == bounds[1] else f"{bounds[0]} to {bounds[1]}"
            raise IndexOutOfRange(
                f"index {index} of {access.buffer.name} is out of range along dimension {dimension}",
                span=place(stmt_span(stmt)),
                values={"index": seen, f"{access.buffer.name}.shape": shape_text(shape)},
                remedy=f"dimension {dimension} has {size} elements: use 0 to {size - 1}",
            )


def _bounds(index: Any, ranges: dict[Any, tuple[int, int]]) -> tuple[int, int] | None:
    """First and last value of a constant, a loop variable, or a loop variable plus a constant."""
    if isinstance(index, tirx.IntImm):
        return int(index.value), int(index.value)
    if isinstance(index, tirx.Var):
        return ranges.get(index)
    if isinstance(index, tirx.Add) and isinstance(index.b, tirx.IntImm) and isinstance(index.a, tirx.Var):
        inner = ranges.get(index.a)
        return None if inner is None else (inner[0] + int(index.b.value), inner[1] + int(index.b.value))
    return None
