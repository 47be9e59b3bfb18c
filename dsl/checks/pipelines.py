"""Pipelined loops: depths that mean something, and pipelines that TileLang would drop."""

from __future__ import annotations

import warnings

from ..errors import PipelineDropped, PipelineError
from ..tree import Loop
from ._context import Launch
from .shared import has_inner_loop


def check_pipelines(launch: Launch) -> None:
    """Depths are positive; a sequential loop inside a pipelined one is a warning, since the pipeline is dropped.

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
        if loop.stages > 1 and has_inner_loop(placed.entry):
            where = f" ({placed.span})" if placed.span else ""
            warnings.warn(
                f"loop {placed.entry.label}{where}: its {loop.stages} pipeline stages are dropped, "
                "because a sequential loop stands inside; unroll it or move it out",
                PipelineDropped,
                stacklevel=2,
            )
