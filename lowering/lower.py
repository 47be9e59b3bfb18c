"""Lowering, straight down: cache, checks, schedule, TileLang, launch plan, NVRTC, proof of the schedule, storage."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from tilewright.dsl import Program, Target, check_program
from tilewright.schedules import Schedule

from . import cache
from .artifact import Artifact
from .checks import check_limits, fallback_remarks
from .fragments import FragmentLayouts
from .nvrtc import compile_cuda
from .options import Options
from .plan_extract import extract_plan
from .repairs import applied_remarks, new_repairs, prepared
from .resources import parse_resources, resource_remarks, stable_log
from .spans import operations, retarget, statements, with_places
from .tilelang_lower import Lowered, lower_with_tilelang
from .toolchain import Toolchain


@dataclass
class _Counters:
    """What this process lowered; times in seconds."""

    compiles: int = 0
    tilelang_seconds: float = 0.0
    nvrtc_seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **amounts: float) -> None:
        with self.lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)


_COUNTERS = _Counters()


def lower(
    program: Program,
    schedule: Schedule | None = None,
    target: Target | None = None,
    options: Options | None = None,
) -> Artifact:
    """The artifact of a program under a schedule for a target, from the cache or made anew.

    Raises:
        TilewrightError: the program, schedule or options cannot be right, or TileLang or the CUDA compiler refused.
    """
    schedule = schedule or Schedule()
    target = target or Target.default()
    options = options or Options()
    key = cache.artifact_key(program, schedule, target, options)
    hit = cache.find(key, schedule)
    if hit is not None:
        return hit
    artifact = build(program, schedule, target, options, key)
    cache.publish(artifact)
    return artifact


def build(program: Program, schedule: Schedule, target: Target, options: Options, key: str) -> Artifact:
    """The artifact, made without looking at the cache.

    Raises:
        TilewrightError: as ``lower``.
    """
    scheduled = schedule.apply(program, target)
    options = options.merged(dict(scheduled.func.attrs.items()))
    # not before the schedule: thread counts and stages are its own
    check_program(scheduled, target, dict(options.pass_configs))
    start = time.perf_counter()
    lowered = lowered_source(scheduled, target, options)
    plan, plan_remarks = extract_plan(scheduled.func, lowered.host, lowered.device, lowered.cuda, program.name)
    check_limits(plan, target, program)
    middle = time.perf_counter()
    compiled = compile_cuda(lowered.cuda, target, options.compiler_flags())
    _COUNTERS.add(compiles=1, tilelang_seconds=middle - start, nvrtc_seconds=time.perf_counter() - middle)
    resources = parse_resources(compiled.log, plan)
    artifact = Artifact(
        key=key,
        target=target,
        plan=plan,
        cuda=lowered.cuda,
        ptx=compiled.ptx,
        cubin=compiled.cubin,
        resources=resources,
        schedule=schedule,
        program_text=str(scheduled.func.script()),
        log=stable_log(compiled.log),
        toolchain=Toolchain.find().version,
        remarks=(
            *lowered.remarks,
            *plan_remarks,
            *fallback_remarks(lowered.cuda, target),
            *resource_remarks(resources),
        ),
        layouts=lowered.layouts,
    )
    schedule.verify(artifact, program)
    return artifact


def lowered_source(
    scheduled: Program, target: Target, options: Options, instruments: tuple[object, ...] = ()
) -> Lowered:
    """TileLang's output for a scheduled program, its line directives leading to the user's files.

    Raises:
        LoweringError: TileLang refused the program.
    """
    ready = prepared(scheduled, target, dict(options.pass_configs))
    options = replace(options, pass_configs=tuple(sorted(ready.configs.items())))
    scheduled, repairs, layouts = ready.program, new_repairs(), FragmentLayouts()
    lowered = lower_with_tilelang(scheduled, target, options, (*repairs, layouts, *instruments))
    layouts.require_whole(scheduled)
    cuda = with_places(retarget(lowered.cuda, operations(scheduled.func)), statements(scheduled.func))
    return replace(lowered, cuda=cuda, remarks=(*lowered.remarks, *ready.remarks, *applied_remarks(repairs)))


def counters() -> dict[str, float]:
    """Compilations, cache hits and seconds of this process."""
    return {
        "compiles": _COUNTERS.compiles,
        "tilelang_seconds": _COUNTERS.tilelang_seconds,
        "nvrtc_seconds": _COUNTERS.nvrtc_seconds,
        **cache.counters(),
    }
