"""The primitives of the schedule language, one file each; ``PRIMITIVES`` is the whole list."""

from __future__ import annotations

from .fast_math import FastMath as FastMath
from .min_blocks import MinBlocks as MinBlocks
from .pipeline import Pipeline as Pipeline
from .place import Place as Place
from .rasterize import Rasterize as Rasterize
from .swap_grid import SwapGrid as SwapGrid
from .threads import Threads as Threads

PRIMITIVES = (Threads, Pipeline, Rasterize, MinBlocks, SwapGrid, FastMath, Place)

__all__ = ["PRIMITIVES", "FastMath", "MinBlocks", "Pipeline", "Place", "Rasterize", "SwapGrid", "Threads"]
