"""The kernels of operators: one for each program, target and schedule in use, compiled when first called.

While :func:`planning` is on, kernels are noted instead of compiled, and calling one does nothing: that is how
``warmup`` finds out what a computation needs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tilewright.dsl import KernelFactory, Program, Target
from tilewright.runtime import Kernel, compile, current_schedule, current_target
from tilewright.schedules import Schedule


@dataclass(frozen=True)
class Recipe:
    """All that decides a kernel: a factory, what it is bound to, target and schedule."""

    factory: KernelFactory
    values: tuple[tuple[str, Any], ...]
    target: Target
    schedule: Schedule | None

    def program(self) -> Program:
        """The tile program."""
        return self.factory.bind(**dict(self.values))

    @functools.cached_property
    def kernel(self) -> Kernel:
        """The kernel, compiled when first asked for."""
        return compile(self.program(), self.schedule, self.target)


_planned: ContextVar[dict[Recipe, None] | None] = ContextVar("tilewright_planned", default=None)


@contextmanager
def planning() -> Iterator[dict[Recipe, None]]:
    """Note the recipes of the kernels that operators ask for inside, in order; nothing is compiled or launched."""
    recipes: dict[Recipe, None] = {}
    token = _planned.set(recipes)
    try:
        yield recipes
    finally:
        _planned.reset(token)


def kernel_of(factory: KernelFactory, **values: Any) -> Callable[..., None]:
    """The kernel of a factory bound to these values, for the current target and schedule."""
    return prepared(_recipe(factory, tuple(values.items()), current_target(), current_schedule()))


def prepared(recipe: Recipe) -> Callable[..., None]:
    """The kernel of a recipe; under ``planning`` a stand-in that launches nothing."""
    planned = _planned.get()
    if planned is None:
        return recipe.kernel
    planned[recipe] = None
    return _no_launch


@functools.lru_cache(maxsize=4096)
def _recipe(
    factory: KernelFactory, values: tuple[tuple[str, Any], ...], target: Target, schedule: Schedule | None
) -> Recipe:
    return Recipe(factory, values, target, schedule)


def _no_launch(*_: object) -> None:
    """Stand in for a kernel while planning."""


def call(kernel: Callable[..., None], *arguments: Any) -> None:
    """Launch with the arguments that are not None: a program has no parameter for a tensor that it does without."""
    kernel(*(argument for argument in arguments if argument is not None))
