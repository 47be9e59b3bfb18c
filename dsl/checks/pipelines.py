"""Pipelined loops: depths that mean something, and pipelines that TileLang would drop."""

from __future__ import annotations

import warnings

from ..errors import PipelineDropped, PipelineError
from ..tree import Entry, Loop
from ._context import Launch
from .shared import filled_buffers


def check_pipelines(launch: Launch) -> None:
    """Depths are positive; a pipeline that TileLang drops is a warning.

    TileLang pipelines the copies that are statements of the loop itself, not those of loops inside it.

    Raises:
        PipelineError: a depth below one.
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
