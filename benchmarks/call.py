"""Host time of a call with three tensors, on the null device (all checks and packing, no launch).

The peer is the same kernel under TileLang for its target ``c``, its only call path on a machine without a GPU; its time
includes adding 256 numbers, well under a microsecond. Times are CPU time of the calling thread, which other work on the
machine does not lengthen as it does wall time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from .comparison import Benchmark, Row, child

CALLS = 2000
CODE = f"import json; from {__name__} import in_this_process; print(json.dumps(in_this_process()))"
REPEATS = 15
SIZE = 256


def per_call(call: Callable[[], object]) -> float:
    """Microseconds a call, over ``CALLS`` calls."""
    start = time.thread_time()
    for _ in range(CALLS):
        call()
    return (time.thread_time() - start) / CALLS * 1e6


def in_this_process() -> dict[str, float]:
    """Medians by side, taken in turns in one process, after one round that is not counted."""
    import tilelang
    import torch

    import tilewright

    from .eager_kernels import eager_add
    from .kernels import add

    a, b, c = (torch.ones(SIZE) for _ in range(3))
    mine = tilewright.compile(add(SIZE), target="sm_90a")
    theirs = tilelang.compile(add(SIZE), target="c")
    mine_jit = tilewright.jit(eager_add, target="sm_90a")
    theirs_jit = tilelang.jit(eager_add, target="c")
    sides: dict[str, Callable[[], object]] = {
        "kernel": lambda: mine(a, b, c),
        "tilelang kernel": lambda: theirs(a, b, c),
        "jit": lambda: mine_jit(a, b, c),
        "tilelang jit": lambda: theirs_jit(a, b, c),
    }
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for round_ in range(REPEATS + 1):
        for name, call in sides.items():
            took = per_call(call)
            if round_:
                seen[name].append(took)
    return {name: statistics.median(values) for name, values in seen.items()}


def measure() -> tuple[Row, ...]:
    """Two rows: a compiled kernel, and a jitted function in the eager style."""
    found = child(["-c", CODE], {"TILEWRIGHT_DEVICE": "null"})
    return (
        Row("kernel(a, b, c)", found["kernel"], found["tilelang kernel"], "tilelang kernel, target c", "us", 3, 5),
        Row("eager jit, add(a, b, c)", found["jit"], found["tilelang jit"], "tilelang.jit, target c", "us", 3),
    )


BENCHMARK = Benchmark("call", "what does a call cost the host?", measure)
