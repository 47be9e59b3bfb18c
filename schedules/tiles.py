"""Tile numbers turned into the indices of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dsl import tirx


def unfolded(tile: Any, extents: Sequence[Any]) -> tuple[Any, ...]:
    """The indices of tile number ``tile``, the first axis fastest."""
    places = []
    for extent in extents[:-1]:
        places.append(tirx.floormod(tile, extent))
        tile = tirx.floordiv(tile, extent)
    return (*places, tile)


def panel_of(tile: Any, extents: Sequence[Any], pattern: Any) -> tuple[Any, ...]:
    """The indices of tile number ``tile`` where tiles go in panels, back and forth (``rasterize``).

    Args:
        tile: the number.
        extents: of the grid, two axes or three; panels run over the first two.
        pattern: the value of TileLang's attribute: the name of its function and the width of a panel.
    """
    by_row, panel = str(pattern.args[0].value).endswith("Row"), int(pattern.args[1])
    plane = extents[0] * extents[1]
    inside = tirx.floormod(tile, plane) if len(extents) > 2 else tile
    along, across = (extents[0], extents[1]) if by_row else (extents[1], extents[0])
    number = tirx.floordiv(inside, panel * along)
    offset = tirx.floormod(inside, panel * along)
    width = tirx.Min(tirx.IntImm("int32", panel), across - number * panel)  # the last panel may be narrower
    step = tirx.floordiv(offset, width)
    back = tirx.Select(tirx.EQ(tirx.floormod(number, 2), 1), along - 1 - step, step)
    lane = tirx.floormod(offset, width) + number * panel
    first = (back, lane) if by_row else (lane, back)
    return (*first, tirx.floordiv(tile, plane)) if len(extents) > 2 else first


def panel_call(pattern: Any) -> str:
    """TileLang's panel function as its code calls it: ``rasterization2DRow<8>``."""
    return f"{pattern.args[0].value}<{int(pattern.args[1])}>"
