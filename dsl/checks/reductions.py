"""Reductions: a fragment destination that keeps the reduced dimension has no layout in TileLang."""

from __future__ import annotations

from ..errors import ShapeMismatch
from ..operations import shape_text
from ._context import Launch


def check_reductions(launch: Launch) -> None:
    """Fragment reductions drop the reduced dimension.

    Raises:
        ShapeMismatch: the destination keeps it with extent one.
    """
    for placed, operation in launch.operations():
        if not operation.name.startswith("reduce_") or len(operation.regions) != 2:
            continue
        source, target = operation.regions
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
