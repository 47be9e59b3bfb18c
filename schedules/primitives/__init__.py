"""The primitives of the schedule language, one file each; ``PRIMITIVES`` is the whole list."""

from __future__ import annotations

from .alias import Alias as Alias
from .cache_hint import CacheHint as CacheHint
from .cluster import Cluster as Cluster
from .copy_engine import CopyEngine as CopyEngine
from .fast_math import FastMath as FastMath
from .min_blocks import MinBlocks as MinBlocks
from .no_alias import NoAlias as NoAlias
from .order import Order as Order
from .overlap import Overlap as Overlap
from .pad import Pad as Pad
from .partition import Partition as Partition
from .persistent import Persistent as Persistent
from .ping_pong import PingPong as PingPong
from .pipeline import Pipeline as Pipeline
from .place import Place as Place
from .rasterize import Rasterize as Rasterize
from .specialize import Specialize as Specialize
from .split_k import SplitK as SplitK
from .stage import Stage as Stage
from .stream_k import StreamK as StreamK
from .swap_grid import SwapGrid as SwapGrid
from .swizzle import Swizzle as Swizzle
from .threads import Threads as Threads
from .unroll import Unroll as Unroll
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
    Alias,
    Persistent,
    SplitK,
    Stage,
    StreamK,
    Order,
    Overlap,
    Unroll,
    Specialize,
    PingPong,
)

__all__ = [
    "PRIMITIVES",
    "Alias",
    "CacheHint",
    "Cluster",
    "CopyEngine",
    "FastMath",
    "MinBlocks",
    "NoAlias",
    "Order",
    "Overlap",
    "Pad",
    "Partition",
    "Persistent",
    "PingPong",
    "Pipeline",
    "Place",
    "Rasterize",
    "Specialize",
    "SplitK",
    "Stage",
    "StreamK",
    "SwapGrid",
    "Swizzle",
    "Threads",
    "Unroll",
    "Vectorize",
]
