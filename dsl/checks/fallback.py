"""Matrix products on sm_90a that silently get ``mma.sync`` instead of warpgroup instructions."""

from __future__ import annotations

import warnings

from ..dtypes import is_fp8
from ..errors import InstructionFallback
from ..operations import Gemm
from ._context import Launch
from .partition import uses_wgmma


def warn_fallbacks(launch: Launch) -> None:
    """Warn, naming line and reason, for each product of at least 64 rows that does not reach warpgroup instructions."""
    threads = launch.threads
    if not launch.target.has_wgmma or threads is None or launch.pass_configs.get("tl.disable_wgmma"):
        return
    for placed, gemm in launch.gemms():
        if gemm.m < 64 or placed.conditional or uses_wgmma(gemm, threads, launch.target):
            continue
        where = f" ({placed.span})" if placed.span else ""
        warnings.warn(
            f"{placed.entry.label}{where}: runs on mma.sync instead of wgmma, because {_reason(gemm, threads)}",
            InstructionFallback,
            stacklevel=2,
        )


def _reason(gemm: Gemm, threads: int) -> str:
    if gemm.b.scope == "local.fragment":
        return f"operand B ({gemm.b.name}) is in a fragment; keep it in shared memory"
    if threads % 128:
        return f"{threads} threads are no whole warp groups; use a multiple of 128"
    if gemm.a.dtype == "float32":
        return "operands are float32 (multiplied as tf32 with mma.sync)"
    if is_fp8(gemm.a.dtype) or gemm.a.dtype in ("int8", "uint8", "tfloat32"):
        wanted = [] if not gemm.transpose_a else ["A as (M, K) with transpose_A=False"]
        wanted += [] if gemm.transpose_b else ["B as (N, K) with transpose_B=True"]
        return f"{gemm.a.dtype} operands must be K-major; store {' and '.join(wanted)}"
    return f"it has no instruction for {gemm.a.dtype} x {gemm.b.dtype} -> {gemm.c.dtype}"
