"""Layouts of shared tiles, set by steps."""

from __future__ import annotations

from typing import Any

from tilewright.dsl import Program
from tilewright.dsl import rewrite as edit

from .errors import IllegalStep
from .handles import find, grid
from .primitive import Primitive, written


def with_layout(step: Primitive, program: Program, buffer: Any, layout: Any) -> Program:
    """The program with ``buffer`` laid out so.

    Raises:
        IllegalStep: the tile has a layout already.
    """
    launch = grid(step, program).node
    layouts = dict(edit.root_block(launch).annotations.get("layout_map", {}).items())
    if any(data.same_as(buffer.data) for data in layouts):
        raise IllegalStep(
            f"{written(step)}: {buffer.name} has a layout already",
            span=find(step, program, str(buffer.name), "buffer").span,
            remedy="leave one of the steps out, or the annotation in the kernel",
        )
    return edit.annotate_block(program, launch, {"layout_map": {**layouts, buffer.data: layout}})
