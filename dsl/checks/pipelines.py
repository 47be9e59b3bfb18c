"""Pipelined loops: depths that mean something, and pipelines that TileLang would drop."""

from __future__ import annotations

import warnings
from typing import Any

from .._tilelang import tirx
from ..errors import PipelineDropped, PipelineError
from ..operations import Operation
from ..tree import Entry, Loop
from ._context import Launch
from .shared import filled_buffers


def check_pipelines(launch: Launch) -> None:
    """Depths are positive; a pipeline that TileLang drops is a warning.

    TileLang pipelines the copies that are statements of the loop itself, not those of loops inside it. It fills slots
    before the statements that read them, so a tile that an iteration reads and then fills for the next one would be
    read from a slot that nothing has filled.

    Raises:
        PipelineError: a depth below one, or a tile that is read before the iteration fills it.
    """
    for placed in launch.placed():
        loop = placed.entry.detail
        if not isinstance(loop, Loop) or loop.stages is None:
            continue
        if loop.stages < 1:
            raise PipelineError(
                f"loop {placed.entry.label}: num_stages = {loop.stages} is no pipeline depth", span=placed.span,
                remedy="use 2 or more stages, or leave num_stages out",
            )  # fmt: skip
        if loop.stages > 1:
            _check_order(placed.entry)
        if loop.stages > 1 and _only_nested_copies(placed.entry):
            where = f" ({placed.span})" if placed.span else ""
            warnings.warn(
                f"loop {placed.entry.label}{where}: its {loop.stages} pipeline stages are dropped, "
                "because its copies stand in an inner loop; pipeline that loop, or move the copies out",
                PipelineDropped,
                stacklevel=2,
            )


def _only_nested_copies(entry: Entry) -> bool:
    """Whether no statement of a loop fills shared memory, but a loop inside it does."""
    if any(filled_buffers(child) for child in entry.children):
        return False
    loops = (inner for child in entry.children for inner in child.walk() if inner.kind == "loop")
    return any(filled_buffers(part) for loop in loops for part in loop.walk())


def _check_order(loop: Entry) -> None:
    """Refuse a pipelined loop that reads a tile before its copy fills it."""
    read: dict[str, Entry] = {}
    for child in loop.children:
        for name in filled_buffers(child):
            if name in read:
                raise PipelineError(
                    f"loop {loop.label}: {read[name].label} reads {name} before {child.label} fills it, "
                    "which a pipeline of several slots cannot keep",
                    span=child.span,
                    remedy="put the copy first in the loop, or leave num_stages out",
                )
        for name in _shared_reads(child):
            read.setdefault(name, child)


def _shared_reads(entry: Entry) -> list[str]:
    """The shared buffers that an entry reads."""
    found: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferLoad) and str(node.buffer.scope()) == "shared.dyn":
            found.append(str(node.buffer.name))

    for part in entry.walk():
        if isinstance(part.detail, Operation):
            regions = part.detail.regions
            found.extend(r.name for r in regions if "r" in r.access and r.scope == "shared.dyn")
    if not any(isinstance(part.detail, Operation) for part in entry.walk()):
        tirx.stmt_functor.post_order_visit(entry.node, visit)
    return found
