"""The parts of a launch in TIR, taken apart and put together again: grid loops, thread indices, root block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dsl import Entry, Program, keep_span, stamp, stmt_span, tirx
from tilewright.dsl import rewrite as edit

ADDED = "tilewright.added"  # annotation of the root block of a launch that a step added: the step's name
PANELS = "tilewright.panels"  # ... of a launch whose blocks take tiles in turn: the panel function of their order
RASTER = "threadblock_swizzle_pattern"


@dataclass(frozen=True)
class Launch:
    """One launch: block variables with their extents, the binding of thread indices, and the root block with the
    attributes around its body, outermost first, and the statements inside."""

    outer: Any
    variables: tuple[Any, ...]
    extents: tuple[Any, ...]
    threads: tuple[Any, ...]
    block: Any
    attributes: tuple[Any, ...]
    body: tuple[Any, ...]


def launch_of(entry: Entry) -> Launch:
    """The launch whose grid is ``entry``."""
    variables, extents, inner = [], [], entry.node
    while isinstance(inner, tirx.For) and inner.thread_binding is not None:
        variables.append(inner.loop_var)
        extents.append(inner.extent)
        inner = inner.body
    block = edit.root_block(entry.node)
    threads = tuple(part for part in edit.statements(inner) if isinstance(part, tirx.Bind))
    attributes, body = [], block.body
    while isinstance(body, tirx.AttrStmt):
        attributes.append(body)
        body = body.body
    statements = tuple(edit.statements(body))
    return Launch(entry.node, tuple(variables), tuple(extents), threads, block, tuple(attributes), statements)


def enclosing_grid(program: Program, entry: Entry) -> Entry:
    """The launch that an entry belongs to."""
    return next(grid for grid in program.outline().grids if any(part is entry for part in grid.walk()))


def sequence(parts: Sequence[Any]) -> Any:
    """One statement of several."""
    return parts[0] if len(parts) == 1 else tirx.SeqStmt(list(parts))


def with_attributes(attributes: Sequence[Any], body: Any) -> Any:
    """``body`` inside attributes, the first outermost."""
    for attribute in reversed(attributes):
        body = keep_span(tirx.AttrStmt(attribute.node, attribute.attr_key, attribute.value, body), attribute)
    return body


def gridded(launch: Launch, grid: Sequence[tuple[Any, Any, str]], block: Any, fresh: bool = False) -> Any:
    """A launch of ``block`` over ``grid`` (variable, extent, axis ``x``, ``y`` or ``z``), outermost first.

    With ``fresh`` thread indices are new variables, so that a function may hold the result beside the original.
    """
    realize = tirx.SBlockRealize([], tirx.const(True, "bool"), block)
    binds = list(launch.threads)
    if fresh:
        binds = [tirx.Bind(tirx.Var(str(bind.var.name), bind.var.dtype), bind.value) for bind in binds]
    body: Any = tirx.SeqStmt([*binds, realize])
    for variable, extent, axis in reversed(list(grid)):
        body = _block_loop(variable, extent, axis, body)
    return stamp(body, stmt_span(launch.outer))


def regridded(program: Program, entry: Entry, build: Callable[[Launch], Any]) -> Program:
    """The program with one launch built anew."""
    launch = launch_of(entry)
    return edit.replace(program, launch.outer, lambda _: build(launch))


def _block_loop(variable: Any, extent: Any, axis: str, body: Any) -> Any:
    bound = tirx.IterVar(None, tirx.Var("", "int32"), tirx.IterVar.ThreadIndex, f"blockIdx.{axis}")
    return tirx.For(variable, 0, extent, tirx.ForKind.THREAD_BINDING, body, bound)
