"""Repairs made on the program and its pass configuration, before TileLang sees either.

``strided_store`` On targets with TMA, TileLang 0.1.15 stores a part of a shared tile whose rows are longer than the
part (``T.copy(s[:, 0:64], B)`` of a 72-wide tile) as one contiguous run of bytes. Such stores are made by threads::

    T.copy(s[:, 0:64], B)   ->   T.copy(s[:, 0:64], B, disable_tma)

``carried_fragment`` Its warp specialisation moves a statement that fills a fragment into the loop around a pipelined
loop, where the fragment is filled anew in every iteration::

    T.clear(c)                                   for o in T.serial(m):
    for o in T.serial(m):                            T.clear(c)
        for k in T.Pipelined(n): .. gemm c  ->       for k in T.Pipelined(n): .. gemm c      # wrong

Such kernels are lowered without warp specialisation.

``kept_storage`` With automatic barriers off, tiles still share storage as if there were some. They get storage of their
own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.dsl import Entry, Loop, Operation, Program, Region, Target, rewrite, tirx

_NO_BARRIERS = "tl.disable_thread_storage_sync"
_NO_REUSE = "tl.disable_shared_memory_reuse"
_NO_SPECIALISATION = "tl.disable_warp_specialized"
_SHARED = ("shared", "shared.dyn")
_PRIVATE = ("local.fragment", "local")


@dataclass(frozen=True)
class Prepared:
    """A program and pass configuration with their faults repaired, and a remark for each repair."""

    program: Program
    configs: Mapping[str, Any]
    remarks: tuple[str, ...]


def prepared(program: Program, target: Target, configs: Mapping[str, Any]) -> Prepared:
    """The program and configuration to hand to TileLang."""
    changed, remarks = dict(configs), []
    stores = _strided_stores(program) if target.has_tma else []
    for label in stores:
        statement = program.outline().find(label).node
        program = rewrite.annotate_call(program, statement, {"disable_tma": True})
    if stores:
        remarks.append(f"repair strided_store: {', '.join(stores)} made by threads")
    carried = _carried(program) if target.has_tma and not changed.get(_NO_SPECIALISATION) else ""
    if carried:
        changed[_NO_SPECIALISATION] = True
        remarks.append(f"repair carried_fragment: {carried} outlives a loop, so warps are not specialised")
    if changed.get(_NO_BARRIERS) and not changed.get(_NO_REUSE):
        changed[_NO_REUSE] = True
        remarks.append("repair kept_storage: without automatic barriers no tiles share storage")
    return Prepared(program, changed, tuple(remarks))


def _strided_stores(program: Program) -> list[str]:
    return [entry.label for entry in program.outline().ops if _is_strided_store(entry.detail)]


def _is_strided_store(operation: object) -> bool:
    if not isinstance(operation, Operation) or operation.name != "copy" or "disable_tma" in operation.annotations:
        return False
    source, goal = operation.regions
    return source.scope in _SHARED and goal.scope == "global" and not _dense(source)


def _dense(region: Region) -> bool:
    """Whether a region is one run of elements: behind its first longer extent every dimension is whole."""
    started = False
    for extent, whole in zip(region.extents, region.buffer.shape, strict=True):
        if started and not (isinstance(whole, tirx.IntImm) and extent == int(whole)):
            return False
        started = started or extent != 1
    return True


def _carried(program: Program) -> str:
    """A fragment that is filled before a loop around a pipelined one and used inside, or nothing."""
    for grid in program.outline().grids:
        filled: list[tuple[Any, str]] = []
        for entry in _statements(grid.children):
            if _holds_pipeline(entry):
                used = [name for buffer, name in filled if _touches(entry, buffer)]
                if used:
                    return used[0]
            filled.extend((b, str(b.name)) for b in _private(entry))
    return ""


def _statements(entries: tuple[Entry, ...]) -> list[Entry]:
    found: list[Entry] = []
    for entry in entries:
        if entry.kind == "attribute":
            found.extend(_statements(entry.children))
        elif entry.kind != "buffer":
            found.append(entry)
    return found


def _holds_pipeline(entry: Entry) -> bool:
    """Whether an entry is a loop with a pipelined loop somewhere inside."""
    inner = (other.detail for other in entry.walk() if other is not entry)
    pipelined = any(isinstance(detail, Loop) and (detail.stages or 1) > 1 for detail in inner)
    return isinstance(entry.detail, Loop) and pipelined


def _private(entry: Entry) -> list[Any]:
    """The fragments that a statement touches."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, (tirx.BufferLoad, tirx.BufferStore)) and str(node.buffer.scope()) in _PRIVATE:
            found.append(node.buffer)

    tirx.stmt_functor.post_order_visit(entry.node, visit)
    return found


def _touches(entry: Entry, buffer: Any) -> bool:
    return any(other.same_as(buffer) for other in _private(entry))
