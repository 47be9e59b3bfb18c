"""The layouts that TileLang gave to tiles, read after its layout inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir.instrument import pass_instrument

from tilewright.dsl import dtype_name

_AFTER = "tl.LayoutInference"


@dataclass(frozen=True)
class TileLayout:
    """Where the elements of one tile are.

    ``index`` is an element's offset in the tile's storage and ``thread`` the thread that holds it (empty for a tile in
    shared memory), as texts over ``variables``, one a dimension of ``shape``; a pipelined tile has its slots in front.
    """

    tile: str
    scope: str
    dtype: str
    shape: tuple[int, ...]
    variables: tuple[str, ...]
    index: str
    thread: str = ""


@pass_instrument
class LayoutRecorder:
    """Watches layout inference; ``layouts`` holds each tile with a layout of constant shape, once."""

    def __init__(self) -> None:
        self._found: dict[str, TileLayout] = {}

    @property
    def layouts(self) -> tuple[TileLayout, ...]:
        """In the order of their names."""
        return tuple(self._found[name] for name in sorted(self._found))

    def run_after_pass(self, module: Any, info: Any) -> None:
        """Read the layout maps of all blocks."""
        for buffer, layout in inferred(module, info):
            name, shape = _text(buffer.name), constant_shape(layout.get_input_shape())
            if name in self._found or shape is None:
                continue
            scope = _text(buffer.scope())
            thread = _text(layout.thread) if scope == "local.fragment" else ""
            names = tuple(_text(variable) for variable in layout.get_forward_vars())
            index = _text(layout.get_linearized_forward_index())
            dtype = _text(dtype_name(buffer.dtype))
            self._found[name] = TileLayout(name, scope, dtype, shape, names, index, thread)


def inferred(module: Any, info: Any) -> list[tuple[Any, Any]]:
    """Every buffer with its layout, where the pass that just ended is layout inference; nothing after another."""
    found: list[tuple[Any, Any]] = []

    def block(node: Any) -> None:
        if isinstance(node, tirx.SBlock) and "layout_map" in node.annotations:
            found.extend(node.annotations["layout_map"].items())

    if str(info.name) == _AFTER:
        for func in module.functions.values():
            if isinstance(func, tirx.PrimFunc):
                tirx.stmt_functor.post_order_visit(func.body, block)
    return found


def constant_shape(shape: Any) -> tuple[int, ...] | None:
    """The extents of a shape; None where one is not constant."""
    extents = [getattr(extent, "value", None) for extent in shape]
    known = tuple(extent for extent in extents if isinstance(extent, int))
    return known if len(known) == len(extents) else None


def _text(value: Any) -> str:
    """The text of a TIR name or expression as a plain str: TVM's own subclass cannot be copied or pickled."""
    return "".join([str(value)])
