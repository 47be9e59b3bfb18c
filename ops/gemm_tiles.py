"""Tiles of the matmul programs per target, and the rule that picks one for a size.

Sizes follow the units: wgmma reads A and B from shared memory and needs 64 rows a warpgroup, two warpgroups for 128;
a row of a tile along k is 128 bytes with wgmma and TMA (one swizzle atom), 64 bytes with cp.async and mma.sync.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.dsl import Target
from tilewright.schedules import Schedule

PANEL = 8  # rows of tiles that blocks sweep together; their A and one B panel fit in L2
MULTIPROCESSORS: Mapping[int, int] = {80: 108, 89: 142, 90: 132}  # A100, L40S, H100 SXM


@dataclass(frozen=True)
class Tile:
    """One block's share of C (m x n), its step along K in bytes, threads, and slots of its pipeline."""

    m: int
    n: int
    k_bytes: int
    threads: int
    stages: int

    def schedule(self) -> Schedule:
        """Threads, pipeline and L2 order, by public primitives."""
        return Schedule().threads(self.threads).pipeline("k", self.stages).rasterize(PANEL)


# largest first; the last one serves every size
WGMMA = (Tile(128, 256, 128, 256, 4), Tile(128, 128, 128, 256, 4), Tile(64, 64, 128, 128, 4))
TMA_MMA = (Tile(128, 128, 128, 256, 3), Tile(64, 64, 128, 128, 3))
ASYNC = (Tile(128, 128, 64, 256, 3), Tile(64, 64, 64, 128, 3), Tile(16, 64, 128, 128, 3))
ELEMENT = (Tile(64, 64, 64, 128, 2),)
ELEMENT_8BIT = (Tile(64, 64, 32, 128, 2),)
FMA = (Tile(128, 128, 64, 256, 2), Tile(64, 64, 64, 256, 2))


def tiles_of(unit: str, target: Target, load: str, item: int, wgmma: bool) -> tuple[Tile, ...]:
    """The tiles for one class of matmuls, largest first."""
    if unit == "fma":
        return FMA
    if load == "tma":
        return WGMMA if wgmma else TMA_MMA
    if int(load) < 4:
        return ELEMENT_8BIT if item == 1 else ELEMENT
    if target.has_wgmma:  # the rows wgmma needs, without TMA
        return (Tile(128, 128, 128, 256, 2), Tile(64, 64, 128, 128, 2))
    return ASYNC


def pick(tiles: tuple[Tile, ...], target: Target, m: int, n: int, batch: int) -> Tile:
    """The largest tile that still gives every multiprocessor one, else the smallest that holds ``m`` best."""
    skinny = [tile for tile in tiles if tile.m < 64]
    full = [tile for tile in tiles if tile.m >= 64]
    if skinny and m <= skinny[0].m:
        return skinny[0]
    for tile in full:
        if -(-m // tile.m) * -(-n // tile.n) * batch >= MULTIPROCESSORS.get(target.arch, 132):
            return tile
    return full[-1]
