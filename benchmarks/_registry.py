"""The benchmarks, in the order in which they are shown."""

from __future__ import annotations

from . import call, compile, import_, lower, vgpu

_ALL = (import_.BENCHMARK, call.BENCHMARK, compile.BENCHMARK, lower.BENCHMARK, vgpu.BENCHMARK)
benchmarks = {one.name: one for one in _ALL}
