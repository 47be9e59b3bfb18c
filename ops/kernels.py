"""The kernels of operators: one for each program, target and schedule in use, compiled when first called."""

from __future__ import annotations

import functools
from typing import Any

from tilewright.dsl import KernelFactory, Target
from tilewright.runtime import Kernel, compile, current_schedule, current_target
from tilewright.schedules import Schedule


def kernel_of(factory: KernelFactory, **values: Any) -> Kernel:
    """The kernel of a factory bound to these values, for the current target and schedule."""
    return _compiled(factory, tuple(values.items()), current_target(), current_schedule())


@functools.lru_cache(maxsize=4096)
def _compiled(
    factory: KernelFactory, values: tuple[tuple[str, Any], ...], target: Target, schedule: Schedule | None
) -> Kernel:
    return compile(factory.bind(**dict(values)), schedule, target)


def call(kernel: Kernel, *arguments: Any) -> None:
    """Launch with the arguments that are not None: a program has no parameter for a tensor that it does without."""
    kernel(*(argument for argument in arguments if argument is not None))
