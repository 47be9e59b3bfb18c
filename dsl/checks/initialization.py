"""Buffers that are read before anything writes them."""

from __future__ import annotations

import warnings
from typing import Any

from .._tilelang import tirx
from ..errors import ReadBeforeWrite
from ..operations import GEMMS, Operation, gemm_of
from ..tree import Entry
from ._context import Launch
from .lifetime import id_of

_CHECKED = ("shared", "shared.dyn", "local.fragment", "local", "local.var")


def warn_uninitialized(launch: Launch) -> None:
    """Warn, once a buffer, when its first use in program order reads it."""
    written: set[str] = set()
    for placed in launch.placed():
        entry = placed.entry
        reads, writes = _accesses(entry)
        for key, name in reads.items():
            if key in written:
                continue
            where = f" ({placed.span})" if placed.span else ""
            warnings.warn(f"{entry.label}{where}: {name} is read before it is written", ReadBeforeWrite, stacklevel=2)
        written |= {*reads, *writes}


def _accesses(entry: Entry) -> tuple[dict[str, str], set[str]]:
    """Buffers an entry reads (key -> name) before it writes them, and those it writes."""
    if entry.children or entry.kind == "buffer":
        return {}, set()
    if isinstance(entry.detail, Operation) and entry.detail.regions:
        return _of_operation(entry.detail)
    reads: dict[str, str] = {}
    writes: set[str] = set()
    foreign = entry.kind == "op"  # a call whose effect on its pointers is unknown may write them

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferLoad) and foreign:
            writes.add(id_of(node.buffer))
        elif isinstance(node, tirx.BufferLoad) and _watched(node.buffer) and id_of(node.buffer) not in writes:
            reads.setdefault(id_of(node.buffer), str(node.buffer.name))
        elif isinstance(node, tirx.BufferStore):
            writes.add(id_of(node.buffer))

    tirx.stmt_functor.post_order_visit(entry.node, visit)
    return reads, writes


def _watched(buffer: Any) -> bool:
    return str(buffer.scope()) in _CHECKED


def _of_operation(operation: Operation) -> tuple[dict[str, str], set[str]]:
    reading = [region for region in operation.regions if "r" in region.access]
    if operation.name in GEMMS and gemm_of(operation).clear:
        reading = [region for region in reading if region is not operation.regions[2]]
    if operation.name.startswith("reduce_") and operation.values[2] is False:
        reading.append(operation.regions[1])
    reads = {id_of(region.buffer): region.name for region in reading if _watched(region.buffer)}
    return reads, {id_of(region.buffer) for region in operation.regions if "w" in region.access}
