"""Ten typical mistakes, end to end: each message is short, and names the argument, or the file and the line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tilewright as tw
from tilewright import language as T

HERE = Path(__file__)


@tw.kernel
def gemm(dtype="float16", dtype_b="float16", block_m=64, block_n=64, block_k=32, threads=128, m=256, n=256, k=256):
    @T.prim_func
    def main(a: T.Tensor((m, k), dtype), b: T.Tensor((k, n), dtype_b), c: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads) as (bx, by):
            a_s = T.alloc_shared((block_m, block_k), dtype)
            b_s = T.alloc_shared((block_k, block_n), dtype_b)
            c_l = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(c_l)
            for i in T.Pipelined(T.ceildiv(k, block_k), num_stages=2):
                T.copy(a[by * block_m, i * block_k], a_s)
                T.copy(b[i * block_k, bx * block_n], b_s)
                T.gemm(a_s, b_s, c_l)
            T.copy(c_l, c[by * block_m, bx * block_n])

    return main


@tw.kernel
def add(n=256):
    @T.prim_func
    def main(a: T.Tensor((n,), "float32"), b: T.Tensor((n,), "float32"), c: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                c[i] = a[i] + b[i]

    return main


@tw.kernel
def misspelt(n=256):
    @T.prim_func
    def main(a: T.Tensor((n,), "float32"), c: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                c[i] = a[i] * scael  # noqa: F821

    return main


def line_of(text: str) -> str:
    """``test_mistakes.py:<line>`` of the one line of this file that holds ``text``."""
    (number,) = [n for n, line in enumerate(HERE.read_text().splitlines(), 1) if text in line and "line_of" not in line]
    return rf"{HERE.name}:{number}\b"


def compiled_add() -> tw.Kernel:
    return tw.compile(add.bind(), target="sm_80", out_idx=-1)


def wrong_rank() -> None:
    compiled_add()(torch.ones(16, 16), torch.ones(256))


def mixed_dtypes() -> None:
    tw.compile(gemm.bind(dtype_b="bfloat16"), target="sm_80")


def odd_tile() -> None:
    tw.compile(gemm.bind(block_m=24), target="sm_80")


def too_much_shared() -> None:
    tw.compile(gemm.bind(m=1024, block_m=512, block_n=256, block_k=128), target="sm_90a")


def too_many_threads() -> None:
    tw.compile(gemm.bind(threads=2048), target="sm_80")


def mixed_devices() -> None:
    kernel = compiled_add()
    with FakeTensorMode():
        kernel(torch.ones(256, device="cpu"), torch.ones(256, device="cuda"))


def none() -> None:
    compiled_add()(torch.ones(256), None)


def requires_grad() -> None:
    compiled_add()(torch.ones(256), torch.ones(256, requires_grad=True))


def undefined_name() -> None:
    tw.compile(misspelt.bind(), target="sm_80")


def misspelt_target() -> None:
    tw.compile(add.bind(), target="sm_9a")


MISTAKES: dict[Callable[[], None], tuple[str, ...]] = {
    wrong_rank: (r"\ba\b", "rank|dimension", r"\(16, 16\)"),
    mixed_dtypes: ("float16", "bfloat16", line_of("T.gemm(a_s")),
    odd_tile: ("24", "16", line_of("T.gemm(a_s")),
    too_much_shared: ("393216|384", "232448|227", "a_s", "b_s", HERE.name),
    too_many_threads: ("2048", "1024", line_of("threads=threads) as")),
    mixed_devices: (r"\bb\b", "cuda", "cpu"),
    none: (r"\bb\b", "None"),
    requires_grad: (r"\bb\b", "gradient"),
    undefined_name: ("scael", line_of("* scael")),
    misspelt_target: ("sm_9a", "sm_90a"),
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.__name__)
def test_the_message_is_short_and_names_the_place(mistake: Callable[[], None]) -> None:
    with pytest.raises(tw.errors.TilewrightError) as caught:
        mistake()
    message = str(caught.value)
    assert len(message.splitlines()) <= 12, message
    for expected in MISTAKES[mistake]:
        assert re.search(expected, message), f"no {expected!r} in:\n{message}"
    assert not re.search(r"tvm::|\.cc\b|0x[0-9a-f]{6}|Traceback|site-packages", message), message
