"""The tiles of the attention kernels by target and head size; chosen so that nothing spills and shared memory fits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.dsl import Target

HEADS = ((32, 32), (64, 64), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256))  # sizes of q and k, of v


@dataclass(frozen=True)
class AttentionTile:
    """``tile_m`` queries and ``tile_n`` keys a step, ``stages`` of keys in flight, ``threads`` a block."""

    tile_m: int
    tile_n: int
    stages: int
    threads: int


def forward_tile(target: Target, dim: int, dim_v: int) -> AttentionTile:
    """The tile of the forward kernel."""
    wide = max(dim, dim_v) > 128
    if target.has_wgmma:
        return AttentionTile(128, 64 if wide else 128, 2, 256)
    return AttentionTile(64, 32 if wide else 64, 1 if wide else 2, 128)


def keys_tile(target: Target, dim: int, dim_v: int) -> AttentionTile:
    """The tile of the gradients of keys and values."""
    wide = max(dim, dim_v) > 128
    if target.has_wgmma:
        return AttentionTile(64, 64, 1 if wide else 2, 128)
    return AttentionTile(32 if max(dim, dim_v) > 64 else 64, 64, 1, 128)


def queries_tile(target: Target, dim: int, dim_v: int) -> AttentionTile:
    """The tile of the gradient of queries."""
    wide = max(dim, dim_v) > 128
    if target.has_wgmma:
        return AttentionTile(64, 64, 1 if wide else 2, 128)
    return AttentionTile(64, 32 if max(dim, dim_v) > 64 else 64, 1, 128)


def keys_passes(dim: int, dim_v: int) -> tuple[tuple[bool, bool], ...]:
    """Which of dk and dv each launch computes: both at once only where both accumulators fit the registers."""
    return ((True, True),) if dim + dim_v <= 256 else ((True, False), (False, True))


def bound(tile: AttentionTile) -> dict[str, Any]:
    """The tile as a program's values."""
    return asdict(tile)
