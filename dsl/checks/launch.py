"""Threads per block and blocks per grid (CUDA C++ Programming Guide, technical specifications)."""

from __future__ import annotations

from ..errors import GridError, ThreadError
from ..operations import GEMMS
from ._context import Launch

_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_WARP_OPERATIONS = ("reduce_", "cumsum", "cummax", *GEMMS)


def check_threads(launch: Launch) -> None:
    """At most 1024 threads, whole warps where warps work together.

    Raises:
        ThreadError: too many threads, or a part of a warp under a gemm, reduction or scan.
    """
    threads, limit = launch.threads, launch.target.max_threads
    if threads is None:
        return
    if not 1 <= threads <= limit:
        raise ThreadError(
            f"a block of {threads} threads cannot be launched, the limit is {limit}", span=launch.grid.span,
            values={"threads": threads}, remedy=f"use at most {limit} threads, or smaller tiles and more blocks",
        )  # fmt: skip
    if threads % launch.target.warp_size == 0:
        return
    for placed, operation in launch.operations():
        if operation.name.startswith(_WARP_OPERATIONS):
            raise ThreadError(
                f"{placed.entry.label} needs whole warps of 32 threads", span=placed.span, values={"threads": threads},
                remedy=f"use {(threads // 32 + 1) * 32} threads",
            )  # fmt: skip


def check_grid(launch: Launch) -> None:
    """Blocks along x, y and z within what a launch takes.

    Raises:
        GridError: an axis that is too long, or more than three axes.
    """
    axes = launch.detail.axes
    if len(axes) > len(_GRID_LIMITS):
        raise GridError(f"a grid has at most 3 axes, got {len(axes)}", span=launch.grid.span)
    for (name, extent), limit, axis in zip(axes, _GRID_LIMITS, "xyz", strict=False):
        if isinstance(extent, int) and extent > limit:
            raise GridError(
                f"grid axis {axis} ({name}) has {extent} blocks, the limit is {limit}", span=launch.grid.span,
                values={"grid": ", ".join(f"{key} = {value}" for key, value in axes)},
                remedy="put the longest axis first (x takes 2147483647), or fold two axes into one",
            )  # fmt: skip
