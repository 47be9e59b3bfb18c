"""Reductions: TileLang takes whole fragments only, and a destination that drops the reduced dimension."""

from __future__ import annotations

from ..errors import ShapeMismatch, ThreadError
from ..operations import Region, buffer_shape, shape_text
from ._context import Launch, Placed

_SCANS = ("cumsum", "cummax")
_SCAN_THREADS = (32, 64, 128, 256, 512, 1024)


def check_reductions(launch: Launch) -> None:
    """Fragment reductions take whole fragments and drop the reduced dimension.

    Raises:
        ShapeMismatch: an operand is part of a fragment, or the destination keeps the dimension with extent one.
        ThreadError: a scan with a number of threads that it has no code for.
    """
    for placed, operation in launch.operations():
        if operation.name in _SCANS:
            _check_scan(placed, launch.threads)
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


def _check_scan(placed: Placed, threads: int | None) -> None:
    if threads is not None and threads not in _SCAN_THREADS:
        raise ThreadError(
            f"{placed.entry.label}: a scan runs with 32, 64, 128, 256, 512 or 1024 threads", span=placed.span,
            values={"threads": threads}, remedy="use one of these counts",
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
