"""The primitives of the schedule language, one file each; ``PRIMITIVES`` is the whole list."""

from __future__ import annotations

from .cache_hint import CacheHint as CacheHint
from .cluster import Cluster as Cluster
from .copy_engine import CopyEngine as CopyEngine
from .fast_math import FastMath as FastMath
from .min_blocks import MinBlocks as MinBlocks
from .no_alias import NoAlias as NoAlias
from .pad import Pad as Pad
from .partition import Partition as Partition
from .pipeline import Pipeline as Pipeline
from .place import Place as Place
from .rasterize import Rasterize as Rasterize
from .swap_grid import SwapGrid as SwapGrid
from .swizzle import Swizzle as Swizzle
from .threads import Threads as Threads
from .vectorize import Vectorize as Vectorize

PRIMITIVES = (
    Threads,
    Pipeline,
    Rasterize,
    MinBlocks,
    SwapGrid,
    FastMath,
    Place,
    CacheHint,
    Cluster,
    CopyEngine,
    NoAlias,
    Pad,
    Partition,
    Swizzle,
    Vectorize,
)

__all__ = [
    "PRIMITIVES",
    "CacheHint",
    "Cluster",
    "CopyEngine",
    "FastMath",
    "MinBlocks",
    "NoAlias",
    "Pad",
    "Partition",
    "Pipeline",
    "Place",
    "Rasterize",
    "SwapGrid",
    "Swizzle",
    "Threads",
    "Vectorize",
]
