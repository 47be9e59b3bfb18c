"""The virtual GPU against the host's own libraries, against Triton's interpreter, and against itself.

Every group of rows is measured in a fresh process: one call of each side that is not counted, whose results must agree,
then the sides in turns. All seconds are wall time.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from .comparison import Benchmark, MeasurementFailed, Row, child, interleaved, seconds

TARGETS = ("sm_90a", "sm_80")
REPEATS = 5
SIZE = 1024
ATTENTION = (1, 8, 1024, 128)  # batch, heads, length, dim
# each is the most seconds allowed
GEMM_LIMIT = 0.35
ATTENTION_LIMIT = 0.6
# each is the least ratio peer / ours
THREADS_GOAL = 1.6
ALWAYS_GOAL = 1 / 1.3  # the standard checks may cost 1.3 times a run without any
RACE_GOAL = 0.25  # race detection may cost four times the plain run
TRITON_SIZES = (512, 1024)
TRITON_TILE = (128, 128, 64)
TRITON_GOAL = 8.0
TRITON_REPEATS = 3
TOLERANCE = 2e-2
# numpy chooses its own kernels: variables that would overrule it are removed
FREE = {"OPENBLAS_CORETYPE": None, "OPENBLAS_L2_SIZE": None}
# The interpreter multiplies tiles with numpy. They are too small for OpenBLAS to share out: on a busy machine its
# threads wait for each other and Triton takes five times as long, so it gets the one thread that serves it best.
INTERPRETED = {"TRITON_INTERPRET": "1", "OPENBLAS_NUM_THREADS": "1"}

Call = Callable[[], Any]


def in_turns(repeats: int, calls: Mapping[str, Call]) -> dict[str, float]:
    """Median seconds by side, after one call of each that is not counted.

    Raises:
        MeasurementFailed: the results of two sides differ by more than ``TOLERANCE`` of the largest value.
    """
    import torch

    results = {name: torch.as_tensor(call()).float() for name, call in calls.items()}
    first, *others = results
    for name in others:
        error = (results[name] - results[first]).abs().max() / results[first].abs().max()
        if not error <= TOLERANCE:
            raise MeasurementFailed(f"{name} and {first} disagree", values={"error": float(error)})
    return interleaved(repeats, {name: functools.partial(seconds, call) for name, call in calls.items()})


def recorded(call: Call, **options: Any) -> Call:
    """The call with keyword arguments of ``vgpu.launch``; a finding is an error, as it is without them."""
    from tilewright.runtime import recording

    def run() -> Any:
        with recording(**options) as reports:
            result = call()
        found = [str(finding) for report in reports for finding in report.findings]
        if found:
            raise MeasurementFailed("the measured kernel is faulty", values={"first": found[0]})
        return result

    return run


def gemm_call(target: str, size: int) -> tuple[Call, Any, Any]:
    """f16 ``ops.gemm`` on a target, and its operands."""
    import torch

    import tilewright

    a, b = (torch.randn(size, size, dtype=torch.float16) for _ in range(2))

    def call() -> Any:
        with tilewright.use(target=target):
            return tilewright.ops.gemm(a, b)

    return call, a, b


def gemm_seconds(target: str) -> dict[str, float]:
    """``ours`` and ``peer``, numpy in float32."""
    import numpy

    call, a, b = gemm_call(target, SIZE)
    x, y = a.float().numpy(), b.float().numpy()
    return in_turns(REPEATS, {"ours": call, "peer": lambda: numpy.matmul(x, y)})


def attention_seconds(target: str) -> dict[str, float]:
    """``ours`` and ``peer``, torch in float32."""
    import torch

    import tilewright

    from .kernels import attention

    q, k, v = (torch.randn(ATTENTION, dtype=torch.float16) for _ in range(3))
    single = (q.float(), k.float(), v.float())
    kernel = tilewright.compile(attention(*ATTENTION), target=target, out_idx=-1)
    peer = functools.partial(torch.nn.functional.scaled_dot_product_attention, *single, is_causal=True)
    return in_turns(REPEATS, {"ours": lambda: kernel(q, k, v), "peer": peer})


def threads_seconds(target: str) -> dict[str, float]:
    """``ours`` on two host threads and ``peer`` on one."""
    call, *_ = gemm_call(target, SIZE)
    return in_turns(REPEATS, {"ours": recorded(call, threads=2), "peer": recorded(call, threads=1)})


def always_seconds(target: str) -> dict[str, float]:
    """``ours`` with the checks that are always on and ``peer`` without any."""
    call, *_ = gemm_call(target, SIZE)
    return in_turns(REPEATS, {"ours": recorded(call), "peer": recorded(call, checks=None)})


def race_seconds(target: str) -> dict[str, float]:
    """``ours`` with race detection and ``peer`` without."""
    call, *_ = gemm_call(target, SIZE)
    return in_turns(REPEATS, {"ours": recorded(call, checks=("race",)), "peer": recorded(call)})


def triton_gemm_seconds(target: str, size: int) -> dict[str, float]:
    """``ours`` and ``peer``, Triton's interpreter, both with tiles of ``TRITON_TILE``."""
    import torch

    import tilewright

    from . import triton_kernels
    from .kernels import gemm

    a, b = (torch.randn(size, size, dtype=torch.float16) for _ in range(2))
    kernel = tilewright.compile(gemm(size, size, size, TRITON_TILE), target=target, out_idx=-1)
    peer = functools.partial(triton_kernels.gemm, a, b, TRITON_TILE)
    return in_turns(TRITON_REPEATS, {"ours": lambda: kernel(a, b), "peer": peer})


def triton_softmax_seconds(target: str) -> dict[str, float]:
    """``ours`` and ``peer``, Triton's interpreter."""
    import torch

    import tilewright

    from . import triton_kernels
    from .kernels import softmax

    x = torch.randn(SIZE, SIZE, dtype=torch.float16)
    kernel = tilewright.compile(softmax(SIZE, SIZE), target=target, out_idx=-1)
    return in_turns(TRITON_REPEATS, {"ours": lambda: kernel(x), "peer": functools.partial(triton_kernels.softmax, x)})


def found(function: Callable[..., dict[str, float]], *arguments: Any, **variables: str) -> tuple[float, float]:
    """What ``function`` of this file finds for ours and the peer, in a fresh process."""
    call = f"{function.__name__}{(*arguments,)!r}"
    code = f"import json; from {__name__} import {function.__name__}; print(json.dumps({call}))"
    sides = child(["-c", code], {**FREE, **variables})
    return sides["ours"], sides["peer"]


def measure() -> tuple[Row, ...]:
    """The rows of each target; those against Triton's interpreter where Triton is installed."""
    gemm = f"gemm {SIZE} f16"
    attention = f"causal attention {'x'.join(map(str, ATTENTION))} f16"
    rows = []
    for target in TARGETS:
        rows += [
            Row(f"{gemm} on {target}", *found(gemm_seconds, target), "numpy float32 matmul", "s", limit=GEMM_LIMIT),
            Row(f"{attention} on {target}", *found(attention_seconds, target), "torch float32 attention", "s",
                limit=ATTENTION_LIMIT),
            Row(f"{gemm} on {target}, two host threads", *found(threads_seconds, target), "one host thread", "s",
                goal=THREADS_GOAL),
            Row(f"{gemm} on {target}, checks always on", *found(always_seconds, target), "no checks at all", "s",
                goal=ALWAYS_GOAL),
            Row(f"{gemm} on {target}, race detection", *found(race_seconds, target), "the plain run", "s",
                goal=RACE_GOAL),
        ]  # fmt: skip
    return (*rows, *(triton_rows() if has_triton() else ()))


def triton_rows() -> tuple[Row, ...]:
    """Ours against Triton's interpreter, which runs a kernel on the CPU a block at a time, in numpy."""
    peer = "Triton's interpreter"
    tile = "x".join(map(str, TRITON_TILE))
    rows = []
    for target, size in itertools.product(TARGETS, TRITON_SIZES):
        ours, theirs = found(triton_gemm_seconds, target, size, **INTERPRETED)
        rows.append(Row(f"gemm {size} f16, tile {tile}, on {target}", ours, theirs, peer, "s", goal=TRITON_GOAL))
    for target in TARGETS:
        ours, theirs = found(triton_softmax_seconds, target, **INTERPRETED)
        rows.append(Row(f"softmax {SIZE}x{SIZE} f16 on {target}", ours, theirs, peer, "s"))
    return tuple(rows)


def has_triton() -> bool:
    """Whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def note() -> str:
    """What is missing when Triton is."""
    return "" if has_triton() else "no rows against Triton's interpreter: pip install 'tilewright[triton]'"


BENCHMARK = Benchmark("vgpu", "how fast is the virtual GPU?", measure, note)
