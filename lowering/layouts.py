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
        if str(info.name) != _AFTER:
            return
        for func in module.functions.values():
            if isinstance(func, tirx.PrimFunc):
                tirx.stmt_functor.post_order_visit(func.body, self._block)

    def _block(self, node: Any) -> None:
        if not isinstance(node, tirx.SBlock) or "layout_map" not in node.annotations:
            return
        for buffer, layout in node.annotations["layout_map"].items():
            name = _text(buffer.name)
            shape = [getattr(extent, "value", None) for extent in layout.get_input_shape()]
            extents = tuple(extent for extent in shape if isinstance(extent, int))
            if name in self._found or len(extents) < len(shape):
                continue
            scope = _text(buffer.scope())
            thread = _text(layout.thread) if scope == "local.fragment" else ""
            names = tuple(_text(variable) for variable in layout.get_forward_vars())
            index = _text(layout.get_linearized_forward_index())
            dtype = _text(dtype_name(buffer.dtype))
            self._found[name] = TileLayout(name, scope, dtype, extents, names, index, thread)


def _text(value: Any) -> str:
    """The text of a TIR name or expression as a plain str: TVM's own subclass cannot be copied or pickled."""
    return "".join([str(value)])
