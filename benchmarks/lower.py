"""TileLang's lowering, program to CUDA text, as this package runs it and as TileLang does; and what a schedule costs.

Each side of a row is a process of its own with everything imported, which lowers once to warm up and then
``REPEATS`` times; both sides print a digest of their text without line directives, and the rows count only when the
digests agree. A schedule is compared with what TileLang has instead: tracing the kernel anew with other arguments.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable
from typing import Any

from .comparison import Benchmark, MeasurementFailed, Row, child

REPEATS = 3
APPLY_LIMIT_MS = 50.0
CASES = (("attention 128x64 d128", "sm_80", None), ("attention 128x64 d128", "sm_90a", None))


def kernel() -> Any:
    """The PrimFunc that is lowered: attention forward, head size 128, every key (TileLang fails on a causal bound)."""
    from .kernels import attention

    return attention(1, 4, 512, 128, causal=False)


def text_of(side: str, func: Any, target: str) -> str:
    """The CUDA text of one side, without line directives."""
    if side == "tilelang":
        import tilelang
        from tvm.ir.transform import PassContext
        from tvm.target import Target

        machine = Target({"kind": "cuda", "arch": target})
        with machine, PassContext(opt_level=3):
            text = str(tilelang.lower(func, target=machine).kernel_source)
    else:
        from tilewright.dsl import Program, Target
        from tilewright.lowering import Options, lowered_source

        text = lowered_source(Program.from_primfunc(func), Target(target), Options()).cuda
    return "\n".join(line for line in text.splitlines() if not line.startswith("#line"))


def one_side(side: str, target: str) -> dict[str, Any]:
    """Median seconds of a lowering in this process, and the digest of its text."""
    func = kernel()
    text_of(side, func, target)
    took = [_timed(lambda: text_of(side, func, target)) for _ in range(REPEATS)]
    digest = hashlib.sha256(text_of(side, func, target).encode()).hexdigest()
    return {"seconds": statistics.median(took), "digest": digest}


def scheduling() -> dict[str, float]:
    """Median seconds to apply a schedule to attention, and to trace the kernel, in this process."""
    from tilewright.dsl import Program, Target
    from tilewright.schedules import Schedule

    program = Program.from_primfunc(kernel())
    loop = next(entry for entry in program.outline().loops if entry.children)
    schedule = Schedule().threads(256).pipeline(loop.label, 3).min_blocks(1).fast_math()
    target = Target("sm_80")
    apply = [_timed(lambda: schedule.apply(program, target)) for _ in range(4 * REPEATS)]
    trace = [_timed(kernel) for _ in range(REPEATS)]
    return {"apply": statistics.median(apply), "trace": statistics.median(trace)}


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure() -> tuple[Row, ...]:
    """A row a target, and one for the schedule.

    Raises:
        MeasurementFailed: the two sides generated different code.
    """
    rows = []
    for what, target, goal in CASES:
        found = {side: _child(f"one_side({side!r}, {target!r})") for side in ("tilewright", "tilelang")}
        if found["tilewright"]["digest"] != found["tilelang"]["digest"]:
            raise MeasurementFailed(f"{what} for {target}: the two sides generated different code")
        ours, peer = (found[side]["seconds"] * 1e3 for side in ("tilewright", "tilelang"))
        rows.append(Row(f"{what} {target}: program to CUDA text", ours, peer, "tilelang.lower", "ms", goal))
    costs = _child("scheduling()")
    what = "a schedule of four steps applied to attention"
    peer_name = "tracing the kernel anew"
    rows.append(Row(what, costs["apply"] * 1e3, costs["trace"] * 1e3, peer_name, "ms", None, APPLY_LIMIT_MS))
    return tuple(rows)


def _child(call: str) -> Any:
    code = f"import json; from {__name__} import one_side, scheduling; print(json.dumps({call}))"
    return child(["-c", code])


BENCHMARK = Benchmark("lower", "how long does TileLang's lowering take, and applying a schedule?", measure)
