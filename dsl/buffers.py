"""Edits of a program's allocations: a tile replaced wherever it is named, a tile added to a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._tilelang import tirx
from .errors import AnnotationError
from .rewrite import replace, root_block, with_block
from .spans import keep_buffer_span, keep_span

if TYPE_CHECKING:
    from .program import Program


def declared(shape: Sequence[Any], dtype: Any, name: str, scope: str) -> Any:
    """A fresh buffer with storage of its own."""
    return tirx.decl_buffer(list(shape), dtype, name, scope=scope)


def with_scope(buffer: Any, scope: str) -> Any:
    """A fresh buffer of the same name, shape and dtype in another scope."""
    return keep_buffer_span(declared(buffer.shape, buffer.dtype, str(buffer.name), scope), buffer)


def swap_buffer(program: Program, old: Any, new: Any) -> Program:
    """Use ``new`` wherever ``old`` is read, written, allocated or laid out; allocating both leaves one.

    Raises:
        AnnotationError: another buffer is a view of the storage of ``old``.
    """
    views = [buffer for buffer in _buffers(program) if buffer.data.same_as(old.data) and not buffer.same_as(old)]
    if views:
        raise AnnotationError(
            f"{old.name} has a view, {views[0].name}, that would be left behind", remedy=f"use {old.name} itself"
        )

    def post(node: Any) -> Any:
        if isinstance(node, tirx.SBlock):
            return _block(node, old, new)
        if not node.buffer.same_as(old):
            return None
        if isinstance(node, tirx.BufferLoad):
            return tirx.BufferLoad(new, node.indices)
        return keep_span(tirx.BufferStore(new, node.value, node.indices), node)

    kinds = ["tirx.BufferLoad", "tirx.BufferStore", "tirx.SBlock"]
    return program.with_func(
        program.func.with_body(tirx.stmt_functor.ir_transform(program.func.body, None, post, kinds))
    )


def add_buffer(program: Program, grid: Any, buffer: Any) -> Program:
    """Allocate ``buffer`` in the launch whose outermost grid loop is ``grid``."""
    block = root_block(grid)
    return replace(program, block, lambda old: with_block(old, alloc_buffers=[*old.alloc_buffers, buffer]))


def fresh_name(program: Program, name: str) -> str:
    """``name``, or ``name`` with the first number behind it that no buffer of the program has."""
    taken = {str(buffer.name) for buffer in _buffers(program)}
    candidates = (name, *(f"{name}_{number}" for number in range(2, len(taken) + 3)))
    return next(candidate for candidate in candidates if candidate not in taken)


def _block(block: Any, old: Any, new: Any) -> Any:
    if not any(buffer.same_as(old) for buffer in block.alloc_buffers):
        return None
    both = any(buffer.same_as(new) for buffer in block.alloc_buffers)
    swapped = [new if buffer.same_as(old) else buffer for buffer in block.alloc_buffers]
    kept = [buffer for buffer in block.alloc_buffers if not buffer.same_as(old)]
    annotations = dict(block.annotations.items())
    if "layout_map" in annotations:
        layouts = annotations["layout_map"]
        annotations["layout_map"] = {
            (new.data if data.same_as(old.data) else data): layout for data, layout in layouts.items()
        }
    return with_block(block, alloc_buffers=kept if both else swapped, annotations=annotations)


def _buffers(program: Program) -> list[Any]:
    found: list[Any] = list(program.func.buffer_map.values())

    def visit(node: Any) -> None:
        if isinstance(node, (tirx.BufferLoad, tirx.BufferStore)):
            found.append(node.buffer)
        elif isinstance(node, tirx.SBlock):
            found.extend(node.alloc_buffers)

    tirx.stmt_functor.post_order_visit(program.func.body, visit)
    return found
