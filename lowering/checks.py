"""Checks of a lowered kernel before it is compiled: launch limits, and fallbacks that TileLang makes silently."""

from __future__ import annotations

import re

from tilewright.dsl import Program, Target

from .diagnostics import kernel_span
from .errors import ResourceLimit
from .plan import KernelLaunch, LaunchPlan


def check_limits(plan: LaunchPlan, target: Target, program: Program) -> None:
    """Refuse launches that the target cannot make, as far as they do not depend on shapes.

    Raises:
        ResourceLimit: more threads or dynamic shared memory than a block may have.
    """
    for launch in plan.launches:
        _check_threads(launch, target, program)
        size = launch.dynamic_shared
        if size.constant and size.evaluate() > target.max_dynamic_shared:
            raise ResourceLimit(
                f"{launch.kernel} needs {size.evaluate()} bytes of shared memory a block, {target.name} has "
                f"{target.max_dynamic_shared}",
                span=kernel_span(program),
                remedy="use smaller tiles or a pipeline of less depth",
            )


def _check_threads(launch: KernelLaunch, target: Target, program: Program) -> None:
    if not all(extent.constant for extent in launch.block):
        return
    x, y, z = (extent.evaluate() for extent in launch.block)
    if x * y * z > target.max_threads:
        raise ResourceLimit(
            f"{launch.kernel} launches {x * y * z} threads a block, {target.name} allows {target.max_threads}",
            span=kernel_span(program),
            values={"block": (x, y, z)},
            remedy="use fewer threads; warp specialisation adds 128 to those of the kernel",
        )


def fallback_remarks(cuda: str, target: Target) -> tuple[str, ...]:
    """Remarks on tensor-core code that is not the best the target has."""
    if not target.has_wgmma or re.search(r"\bwgmma_\w+<", cuda):
        return ()
    if re.search(r"\bmma_sync<|ptx_mma|mma_m16n8", cuda):
        return (
            "T.gemm fell back from wgmma to mma.sync: operand layout, dtype, tile size or scope does not suit wgmma",
        )
    return ()
