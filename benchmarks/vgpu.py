"""The virtual GPU against the host itself: gemm 1024^3 in f16 through PTX, and numpy's float32 matmul."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from .comparison import Benchmark, Row, child

SIZE = 1024
CODE = f"import json; from {__name__} import in_this_process; print(json.dumps(in_this_process()))"
REPEATS = 5
TARGETS = ("sm_90a", "sm_80")
LIMIT = 0.6


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def in_this_process() -> dict[str, float]:
    """Median seconds by side, taken in turns after one call of each that is not counted."""
    import numpy
    import torch

    import tilewright

    a, b = (torch.randn(SIZE, SIZE, dtype=torch.float16) for _ in range(2))
    x, y = a.float().numpy(), b.float().numpy()

    def on(target: str) -> Callable[[], object]:
        def call() -> object:
            with tilewright.use(target=target):
                return tilewright.ops.gemm(a, b)

        return call

    sides: dict[str, Callable[[], object]] = {target: on(target) for target in TARGETS}
    sides["numpy"] = lambda: numpy.matmul(x, y)
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for round_ in range(REPEATS + 1):
        for name, call in sides.items():
            took = seconds(call)
            if round_:
                seen[name].append(took)
    return {name: statistics.median(values) for name, values in seen.items()}


def measure() -> tuple[Row, ...]:
    """One row a target. numpy chooses its own kernels: variables that would overrule it are removed."""
    free = {"OPENBLAS_CORETYPE": None, "OPENBLAS_L2_SIZE": None}
    found = child(["-c", CODE], free)
    return tuple(
        Row(f"gemm {SIZE} f16 on {target}", found[target], found["numpy"], "numpy float32 matmul", "s", limit=LIMIT)
        for target in TARGETS
    )


BENCHMARK = Benchmark("vgpu", "how fast is the virtual GPU?", measure)
