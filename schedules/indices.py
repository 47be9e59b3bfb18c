"""Reads of a tensor in a parallel loop, recognised as one block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.dsl import tirx, tvm

from .accesses import global_buffers


@dataclass(frozen=True)
class BlockRead:
    """A block of a tensor: first element and extent per dimension, and the index of an element inside it."""

    buffer: Any
    begins: tuple[Any, ...]
    extents: tuple[int, ...]
    indices: tuple[Any, ...]


def block_of_loads(loop: Any, tensor: str) -> BlockRead | str:
    """The block of ``tensor`` that the parallel nest ``loop`` reads; a text that says why it is none."""
    buffers = [buffer for buffer in global_buffers(loop) if str(buffer.name) == tensor]
    if not buffers:
        names = [str(buffer.name) for buffer in global_buffers(loop)]
        return f"does not read a global tensor {tensor!r}, only {', '.join(names) or 'none'}"
    extents: dict[Any, int] = {}
    while isinstance(loop, tirx.For):
        if not isinstance(loop.extent, tirx.IntImm):
            return "has an extent that is no constant"
        extents[loop.loop_var] = int(loop.extent)
        loop = loop.body
    loads, written = _accesses(loop, buffers[0])
    if written:
        return f"also writes {tensor!r}"
    if any(not tvm.ir.structural_equal(load.indices, loads[0].indices) for load in loads[1:]):
        return f"reads {tensor!r} at several places"
    return _block(buffers[0], loads[0].indices, extents)


def _block(buffer: Any, indices: Any, extents: dict[Any, int]) -> BlockRead | str:
    analyzer = tvm.arith.Analyzer()
    begins, sizes, places, seen = [], [], [], []
    for index in indices:
        variables = [variable for variable in extents if _uses(index, variable)]
        if len(variables) > 1:
            return f"reads {buffer.name!r} at {index}, more than one loop variable in a dimension"
        begin = analyzer.simplify(index - variables[0]) if variables else index
        if any(_uses(begin, variable) for variable in extents) or (variables and variables[0] in seen):
            return f"reads {buffer.name!r} at {index}, which is no start and a loop variable"
        seen.extend(variables)
        begins.append(begin)
        sizes.append(extents[variables[0]] if variables else 1)
        places.append(variables[0] if variables else tirx.IntImm("int32", 0))
    return BlockRead(buffer, tuple(begins), tuple(sizes), tuple(places))


def _uses(expression: Any, variable: Any) -> bool:
    return any(other.same_as(variable) for other in tirx.analysis.undefined_vars(expression))


def _accesses(stmt: Any, buffer: Any) -> tuple[list[Any], bool]:
    loads: list[Any] = []
    stores: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferLoad) and node.buffer.same_as(buffer):
            loads.append(node)
        elif isinstance(node, tirx.BufferStore) and node.buffer.same_as(buffer):
            stores.append(node)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return loads, bool(stores)
