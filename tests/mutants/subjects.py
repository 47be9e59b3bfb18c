"""The kernels under mutation: how each is made, what it is called with, and what it must compute."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import attention_kernels
import cuda_kernels
import matmul_kernels
import row_kernels
import torch

import tilewright as tw
from tilewright.runtime import Kernel

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, eq=False)
class Subject:
    """One kernel of one target.

    ``expected`` gives the outputs, by position among the arguments, in float64 or exact.
    """

    name: str
    target: str
    factory: Any
    arguments: Callable[[], Tensors]
    expected: Callable[..., Mapping[int, torch.Tensor]]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def kernel(self) -> Kernel:
        """The kernel as it is meant."""
        if isinstance(self.factory, cuda_kernels.Cuda):
            return self.factory.kernel(self.target)
        return tw.compile(self.factory.bind(**self.settings), target=self.target)


def _halves(*shapes: tuple[int, ...]) -> Tensors:
    generator = torch.Generator().manual_seed(7)
    return tuple(torch.randn(shape, generator=generator).half() for shape in shapes)


def _integers(*shapes: tuple[int, ...]) -> Tensors:
    generator = torch.Generator().manual_seed(7)
    return tuple(torch.randint(-1000, 1000, shape, generator=generator, dtype=torch.int32) for shape in shapes)


def _matmul(m: int, n: int, k: int, out: torch.dtype = torch.float16) -> Callable[[], Tensors]:
    return lambda: (*_halves((m, k), (k, n)), torch.zeros(m, n, dtype=out))


def _product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Mapping[int, torch.Tensor]:
    return {2: a.double() @ b.double() + c.double()}


def _grouped(sizes: tuple[int, ...], k: int) -> Callable[[], Tensors]:
    offsets = [sum(sizes[:g]) for g in range(len(sizes))]
    return lambda: (
        *_halves((192, k), (2, k, 64)),
        torch.tensor(sizes, dtype=torch.int32),
        torch.tensor(offsets, dtype=torch.int32),
        torch.zeros(192, 64, dtype=torch.float16),
    )


def _grouped_product(
    a: torch.Tensor, b: torch.Tensor, sizes: torch.Tensor, offsets: torch.Tensor, c: torch.Tensor
) -> Mapping[int, torch.Tensor]:
    out = c.double()
    for g, (size, offset) in enumerate(zip(sizes.tolist(), offsets.tolist(), strict=True)):
        out[offset : offset + size] = a[offset : offset + size].double() @ b[g].double()
    return {4: out}


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor) -> Mapping[int, torch.Tensor]:
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    return {3: (torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v).transpose(0, 1)}


def _rms(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> Mapping[int, torch.Tensor]:
    x = x.double()
    return {2: x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w.double()}


def _ring(x: torch.Tensor, y: torch.Tensor) -> Mapping[int, torch.Tensor]:
    return {1: x.double().flip(-1)}


def _hash(shares: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """What a thread makes of the four values that it reads of 512, on top of what it has; in wrapping int32."""
    for k in range(4):
        total = (total * 3 + shares[128 * k : 128 * k + 128].flip(0).long() + 2**31) % 2**32 - 2**31
    return total


def _copies(x: torch.Tensor, y: torch.Tensor) -> Mapping[int, torch.Tensor]:
    rows = [functools.reduce(lambda total, row: _hash(row, total), block, torch.zeros(128).long()) for block in x]
    return {1: torch.stack(rows)}


def _pair(x: torch.Tensor, y: torch.Tensor) -> Mapping[int, torch.Tensor]:
    sums = torch.zeros(4, 128).long()
    for r in range(4):
        sent = [x[b, r].long() + sums[b].repeat_interleave(4) for b in range(4)]
        sums = torch.stack([_hash(sent[b ^ 1], sums[b]) for b in range(4)])
    return {1: sums}


def _flags(x: torch.Tensor, *_: torch.Tensor) -> Mapping[int, torch.Tensor]:
    sums = x.long().sum(1)
    share = sums[:, None] + torch.arange(128)
    return {1: sums.cumsum(0), 2: share, 3: share.sum(0), 4: torch.ones(3), 5: torch.full((1,), 3)}


def _flag_arguments() -> Tensors:
    zeros = (torch.zeros(n, dtype=torch.int32) for n in ((3,), (3, 128), (128,)))
    return (*_integers((3, 128)), *zeros, torch.zeros(3, dtype=torch.uint32), torch.zeros(1, dtype=torch.uint32))


_m, _r = matmul_kernels, row_kernels
_WIDE = {"block_k": 64}

SUBJECTS: tuple[Subject, ...] = (
    Subject("gemm", "sm_80", _m.gemm, _matmul(128, 64, 256), _product),
    Subject("gemm", "sm_90a", _m.gemm, _matmul(128, 64, 704), _product, {"k": 704, **_WIDE}),
    Subject("gemm_store", "sm_80", _m.gemm_store, _matmul(128, 64, 256), _product),
    Subject("gemm_store", "sm_90a", _m.gemm_store, _matmul(128, 64, 704), _product, {"k": 704, **_WIDE}),
    Subject("split_k", "sm_80", _m.split_k, _matmul(64, 64, 384, torch.float32), _product),
    Subject("split_k", "sm_90a", _m.split_k, _matmul(64, 64, 2176, torch.float32), _product, {"k": 2176, **_WIDE}),
    Subject("persistent", "sm_80", _m.persistent, _matmul(192, 128, 192), _product),
    Subject("persistent", "sm_90a", _m.persistent, _matmul(256, 128, 128), _product, {"m": 256, "k": 128, **_WIDE}),
    Subject("grouped", "sm_80", _m.grouped, _grouped((100, 92), 192), _grouped_product),
    Subject("grouped", "sm_90a", _m.grouped, _grouped((100, 92), 1088), _grouped_product, {"k": 1088, **_WIDE}),
    Subject(
        "attention",
        "sm_80",
        attention_kernels.attention,
        lambda: (*_halves((128, 1, 64), (192, 1, 64), (192, 1, 64)), torch.zeros(128, 1, 64).half()),
        _attention,
    ),
    Subject(
        "attention",
        "sm_90a",
        attention_kernels.attention,
        lambda: (*_halves((128, 1, 64), (704, 1, 64), (704, 1, 64)), torch.zeros(128, 1, 64).half()),
        _attention,
        {"keys": 704},
    ),
    Subject("rms_norm", "sm_80", _r.rms_norm, lambda: (*_halves((8, 512), (512,)), torch.zeros(8, 512).half()), _rms),
    Subject(
        "softmax",
        "sm_80",
        _r.softmax,
        lambda: (torch.randn(2, 640, generator=torch.Generator().manual_seed(7)), torch.zeros(2, 640)),
        lambda x, y: {1: torch.softmax(x.double(), -1)},
    ),
    Subject(
        "ring",
        "sm_90a",
        cuda_kernels.ring,
        lambda: (torch.randn(2, 8, 512, generator=torch.Generator().manual_seed(7)), torch.zeros(2, 8, 512)),
        _ring,
    ),
    Subject(
        "copies",
        "sm_80",
        cuda_kernels.copies,
        lambda: (*_integers((2, 6, 512)), torch.zeros(2, 128, dtype=torch.int32)),
        _copies,
    ),
    Subject("pair", "sm_90a", cuda_kernels.pair, lambda: (*_integers((4, 4, 512)), torch.zeros(4, 128).int()), _pair),
    Subject("flags", "sm_80", cuda_kernels.flags, _flag_arguments, _flags),
)
