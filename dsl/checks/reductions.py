"""Reductions: TileLang takes whole fragments only, and a destination that drops the reduced dimension."""

from __future__ import annotations

from ..errors import ShapeMismatch
from ..operations import Region, buffer_shape, shape_text
from ._context import Launch, Placed


def check_reductions(launch: Launch) -> None:
    """Fragment reductions take whole fragments and drop the reduced dimension.

    Raises:
        ShapeMismatch: an operand is part of a fragment, or the destination keeps the dimension with extent one.
    """
    for placed, operation in launch.operations():
        if not operation.name.startswith("reduce_") or len(operation.regions) != 2:
            continue
        source, target = operation.regions
        _require_whole(placed, source)
        _require_whole(placed, target)
        if len(source.extents) < 2 or len(target.extents) < len(source.extents) or target.scope != "local.fragment":
            continue
        name = target.name.removesuffix("_frag")  # the copy that T.reduce makes of a shared buffer
        dim = operation.values[1]
        kept = tuple(extent for index, extent in enumerate(source.extents) if index != dim)
        raise ShapeMismatch(
            f"{placed.entry.label}: destination {name} keeps dimension {dim}, which TileLang cannot lay out",
            span=placed.span, values={source.name: shape_text(source.extents), target.name: shape_text(target.extents)},
            remedy=f"allocate {name} with shape {shape_text(kept)} and index it without that dimension",
        )  # fmt: skip


def _require_whole(placed: Placed, region: Region) -> None:
    if region.scope != "local.fragment" or region.whole:
        return
    raise ShapeMismatch(
        f"{placed.entry.label}: {region} is part of a fragment, and TileLang reduces whole fragments",
        span=placed.span,
        values={"part": shape_text(region.extents), f"{region.name}.shape": shape_text(buffer_shape(region.buffer))},
        remedy=f"keep {region.name} in shared memory, or copy the part to a fragment of its own shape first",
    )
