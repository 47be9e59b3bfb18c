"""``tw.warmup``: compile the kernels of operator calls ahead of time, in several processes."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tilewright import lowering
from tilewright.dsl import Target
from tilewright.errors import TilewrightError
from tilewright.runtime import use
from tilewright.schedules import Schedule

from .errors import OptionError
from .kernels import Recipe, planning

_SERVE = f"from {__name__} import serve; serve()"
_Sent = tuple[str, str, tuple[tuple[str, Any], ...], str, str | None]


@dataclass(frozen=True)
class Warmup:
    """What ``warmup`` did.

    Attributes:
        kernels: distinct kernels that the calls need.
        compiled: those that were not in the artifact cache.
        names: ``kernel function on target`` of each, sorted.
    """

    kernels: int
    compiled: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kernels} kernels ready, {self.compiled} of them compiled now"


def warmup(*calls: Callable[[], object], targets: Sequence[Target | str] = (), processes: int | None = None) -> Warmup:
    """Compile every kernel that the operators of these calls launch; later calls find them ready.

    The calls run once for each target, on real tensors, but no operator kernel is launched: results hold whatever
    memory held, so a call must not branch or index on them, nor update what is kept (leave the optimizer's step
    away). Gradients count: let a call run ``backward`` to have its kernels too. Kernels of ``tw.compile`` and
    ``tw.jit`` are not operators: they compile and run as always.

    Args:
        calls: functions without arguments, such as ``lambda: tw.ops.rms_norm(x, w)``.
        targets: architectures to compile for; default: the current target.
        processes: how many compile at once; default: the number of CPUs that this process may use; 1 compiles here.

    Raises:
        OptionError: no call, something that cannot be called, or fewer than one process.
        UnknownTarget: a target's name is not documented.
        TilewrightError: what an operator says of its arguments, or lowering of a kernel.
    """
    _check(calls, processes)
    before = lowering.counters()["compiles"]
    with planning() as planned:
        for target in targets or (None,):
            with use(target=target):
                for call in calls:
                    call()
    recipes = tuple(planned)
    compiled = _compile_apart(recipes, processes or len(os.sched_getaffinity(0)))
    names = sorted(f"{recipe.kernel.plan.launches[0].kernel} on {recipe.target.name}" for recipe in recipes)
    return Warmup(len(recipes), compiled + int(lowering.counters()["compiles"] - before), tuple(names))


def _check(calls: tuple[Callable[[], object], ...], processes: int | None) -> None:
    if not calls:
        raise OptionError("warmup needs a call", remedy="pass functions, such as lambda: tw.ops.rms_norm(x, w)")
    for position, call in enumerate(calls):
        if not callable(call):
            raise OptionError(
                f"warmup: call {position} is {type(call).__name__}, not a function",
                remedy="wrap it: lambda: tw.ops.rms_norm(x, w)",
            )
    if processes is not None and processes < 1:
        raise OptionError(f"warmup: processes = {processes}", remedy="give at least 1")


def _compile_apart(recipes: Sequence[Recipe], processes: int) -> int:
    """Compile into the artifact cache in child processes; how many were compiled.

    What a child cannot do, such as import a factory of ``__main__``, is left to this process, which then compiles it
    and raises its error.
    """
    sent = [_send(recipe) for recipe in recipes if _importable(recipe)]
    workers = min(processes, len(sent))
    if workers < 2:
        return 0
    shares = [sent[start::workers] for start in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        return sum(pool.map(_child, shares))


def _child(share: Iterable[_Sent]) -> int:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    done = subprocess.run(
        [sys.executable, "-c", _SERVE], input=pickle.dumps(share), capture_output=True, env=environment, check=False
    )
    last = done.stdout.split()[-1:]
    return int(last[0]) if done.returncode == 0 and last else 0


def serve() -> None:
    """Compile the recipes pickled on standard input; print how many were compiled. Errors are left to the parent."""
    before = lowering.counters()["compiles"]
    for entry in pickle.load(sys.stdin.buffer):
        with contextlib.suppress(TilewrightError):
            lower(entry)
    print(int(lowering.counters()["compiles"] - before))


def lower(entry: _Sent) -> None:
    """Compile one recipe as it was sent."""
    module, name, values, target, schedule = entry
    factory = getattr(importlib.import_module(module), name)
    parts = None if schedule is None else Schedule.from_json(schedule)
    lowering.lower(factory.bind(**dict(values)), parts, Target(target))


def _send(recipe: Recipe) -> _Sent:
    schedule = None if recipe.schedule is None else recipe.schedule.to_json()
    return recipe.factory.__module__, recipe.factory.__name__, recipe.values, recipe.target.name, schedule


def _importable(recipe: Recipe) -> bool:
    factory = recipe.factory
    module = sys.modules.get(factory.__module__)
    return factory.__module__ != "__main__" and getattr(module, factory.__name__, None) is factory
