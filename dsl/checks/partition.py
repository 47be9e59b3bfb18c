"""How the warps of a block share a matrix product: every warp owns whole instruction tiles, or it does not lower."""

from __future__ import annotations

import math

from ..dtypes import bits
from ..errors import ThreadError, TileError
from ..operations import Gemm
from ..target import Target
from ._context import Launch

_SHARED = ("shared", "shared.dyn")


def uses_wgmma(gemm: Gemm, threads: int, target: Target) -> bool:
    """Whether TileLang picks warpgroup instructions for a product (its own rules, for sm_90a)."""
    whole_groups = threads % 128 == 0 and gemm.m >= 64
    return target.has_wgmma and whole_groups and gemm.b.scope in _SHARED and wgmma_operands(gemm)


def wgmma_operands(gemm: Gemm) -> bool:
    """Whether warpgroup instructions take these dtypes in these orientations."""
    a, b, c = gemm.a.dtype, gemm.b.dtype, gemm.c.dtype
    if a == b == "float16" and c in ("float16", "float32"):
        return True
    if a == b == "bfloat16" and c == "float32":
        return True
    return a not in ("float32", "float64") and gemm.transpose_b and not gemm.transpose_a


def warp_grid(gemm: Gemm, warps: int, wgmma: bool) -> tuple[int, int] | None:
    """Warps along M and along N, None when no split covers the tile evenly."""
    group = 4 if wgmma else 1
    splits = [
        (rows, warps // rows)
        for rows in range(group, warps + 1, group)
        if warps % rows == 0 and gemm.m % (16 * rows) == 0 and gemm.n % (8 * (warps // rows)) == 0
    ]
    if not splits:
        return None
    if gemm.policy == "FullRow":
        return splits[-1]
    if gemm.policy == "FullCol":
        return splits[0]
    ideal = gemm.m / gemm.n
    return min(splits, key=lambda split: abs((gemm.m / split[0] / 16) / (gemm.n / split[1] / 8) - ideal))


def check_partition(launch: Launch) -> None:
    """The warps of the block can share every matrix product.

    Raises:
        ThreadError: no split of the warps covers the tile.
        TileError: the columns of a warp group make a shared layout that warpgroup instructions cannot read.
    """
    threads = launch.threads
    if threads is None or threads % 32:
        return
    for placed, gemm in launch.gemms():
        if placed.conditional:
            continue
        wgmma = uses_wgmma(gemm, threads, launch.target) and not launch.pass_configs.get("tl.disable_wgmma")
        split = warp_grid(gemm, threads // 32, wgmma)
        if split is None:
            raise ThreadError(
                f"{placed.entry.label}: {threads // 32} warps cannot share a {gemm.m}x{gemm.n} tile", span=placed.span,
                values={"threads": threads, "policy": gemm.policy},
                remedy=f"each warp needs a multiple of 16 rows and 8 columns: use {_counts(gemm, wgmma)} threads",
            )  # fmt: skip
        columns = math.gcd(gemm.n // split[1], 256)
        step = 256 // bits(gemm.b.dtype)
        if wgmma and not gemm.transpose_b and columns % step:
            raise TileError(
                f"{placed.entry.label}: N = {gemm.n} gives B no swizzled layout that wgmma reads", span=placed.span,
                values={"N per warp group": gemm.n // split[1], "B": f"{gemm.b.dtype}, N contiguous"},
                remedy=f"make N per warp group a multiple of {step}, or store B transposed and pass transpose_B=True",
            )  # fmt: skip


def _counts(gemm: Gemm, wgmma: bool) -> str:
    warps = [count for count in range(1, 33) if warp_grid(gemm, count, wgmma and count % 4 == 0) is not None]
    useful = [count for count in warps if count in (1, 2, 4, 8, 12, 16)] or warps
    return " or ".join(str(32 * count) for count in useful) or "no number of"
