"""The kernels of ``kernels.py`` for Triton, an optional extra; it reads ``TRITON_INTERPRET`` when this is imported."""

import torch
import triton
import triton.language as tl


@triton.jit
def _gemm(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(1) * M + tl.arange(0, M)
    columns = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        x = tl.load(a + rows[:, None] * k + inner[None, :])
        y = tl.load(b + inner[:, None] * n + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.jit
def _softmax(x, y, n, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    places = rows[:, None] * n + tl.arange(0, WIDTH)[None, :]
    values = tl.load(x + places).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=1)[:, None])
    tl.store(y + places, (powers / tl.sum(powers, axis=1)[:, None]).to(tl.float16))


def gemm(a, b, tile):
    """a (m, k) @ b (k, n) in f16, contiguous, sums in f32; ``tile`` (m, n, k) must divide the sizes."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype)
    _gemm[(n // tile[1], m // tile[0])](a, b, c, n, k, *tile)
    return c


def softmax(x, rows=4):
    """The softmax of each row of a contiguous (m, n) f16 tensor, ``rows`` a block; n must be a power of 2."""
    y = torch.empty_like(x)
    _softmax[(x.shape[0] // rows,)](x, y, x.shape[1], rows, x.shape[1])
    return y
