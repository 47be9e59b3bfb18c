"""Ratios against a named peer, measured side by side in one run; ``tilewright bench NAME``."""

from ._registry import benchmarks as benchmarks
from .comparison import Benchmark as Benchmark
from .comparison import Row as Row

__all__ = ["Benchmark", "Row", "benchmarks"]
