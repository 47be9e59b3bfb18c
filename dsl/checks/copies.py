"""Shapes of copies: both sides agree once extents of one are left out."""

from __future__ import annotations

from ..errors import ShapeMismatch
from ..operations import COPIES, Region, shape_text
from ._context import Launch


def check_copies(launch: Launch) -> None:
    """Source and destination of every copy cover the same extents.

    A side of extent one everywhere broadcasts; symbolic extents are left to run time.

    Raises:
        ShapeMismatch: the extents differ.
    """
    for placed, operation in launch.operations(*COPIES):
        if len(operation.regions) != 2:
            continue
        source, target = operation.regions
        if _agree(source.tile, target.tile):
            continue
        raise ShapeMismatch(
            f"{placed.entry.label}: {shape_text(source.extents)} does not fit {shape_text(target.extents)}",
            span=placed.span, values={source.name: _shape(source), target.name: _shape(target)},
            remedy="copy regions of equal extents; a transposed copy is a T.Parallel loop or T.transpose",
        )  # fmt: skip


def _shape(region: Region) -> str:
    return shape_text(tuple(map(str, region.buffer.shape)))


def _agree(source: tuple[int | str, ...], target: tuple[int | str, ...]) -> bool:
    if not source or not target or len(source) != len(target):
        return not source or not target or any(isinstance(extent, str) for extent in (*source, *target))
    pairs = zip(source, target, strict=True)
    return all(left == right or isinstance(left, str) or isinstance(right, str) for left, right in pairs)
