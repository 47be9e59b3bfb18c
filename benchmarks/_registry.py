"""The benchmarks, in the order in which they are shown."""

from __future__ import annotations

from . import call, compile, import_, vgpu

benchmarks = {one.name: one for one in (import_.BENCHMARK, call.BENCHMARK, compile.BENCHMARK, vgpu.BENCHMARK)}
