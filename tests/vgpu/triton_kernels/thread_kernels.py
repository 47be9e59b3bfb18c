"""Triton kernels on ordinary threads; ``remake.py`` compiles them."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def softmax(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf")).to(tl.float32)
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * stride + i, v / tl.sum(v, 0), mask=i < n)


@triton.jit
def layer_norm(x, weight, bias, out, mean, rstd, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, n, BLOCK):
        i = at + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    m = tl.sum(total, 0) / n
    squares = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, n, BLOCK):
        i = at + tl.arange(0, BLOCK)
        d = tl.where(i < n, tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32) - m, 0.0)
        squares += d * d
    r = 1 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    for at in range(0, n, BLOCK):
        i = at + tl.arange(0, BLOCK)
        v = (tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32) - m) * r
        w, b = tl.load(weight + i, mask=i < n), tl.load(bias + i, mask=i < n)
        tl.store(out + row * n + i, v * w + b, mask=i < n)


@triton.jit
def reductions(x, out, index, M: tl.constexpr, N: tl.constexpr):
    rm, rn = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + rm[:, None] * N + rn[None, :])
    tl.store(out + rm, tl.sum(v, 1))
    tl.store(out + M + rm, tl.max(v, 1))
    tl.store(out + 2 * M + rm, tl.min(v, 1))
    tl.store(out + 3 * M + rn, tl.sum(v, 0))
    tl.store(index + rm, tl.argmax(v, 1))
    tl.store(index + M + rn, tl.argmin(v, 0))
    tl.store(index + M + N + rn, tl.xor_sum(v.to(tl.int32), 0))


@triton.jit
def _affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def scans(x, y, out, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v, w = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.cumsum(v, 1))
    tl.store(out + M * N + i, tl.cumsum(v, 0, reverse=True))
    a, b = tl.associative_scan((v, w), 1, _affine)
    tl.store(out + 2 * M * N + i, a)
    tl.store(out + 3 * M * N + i, b)
    tl.store(out + 4 * M * N + i, tl.cumprod(w, 1))


@triton.jit
def gather_scatter(x, index, out, count, n, rows, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.load(index + i, mask=i < n, other=-1)
    ok = (j >= 0) & (j < rows)
    v = tl.load(x + j, mask=ok, other=-7.0)
    tl.store(out + i, v, mask=i < n)
    tl.atomic_add(count + j, 1, mask=ok)


@triton.jit
def atomics(x, out, old, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.atomic_max(out + i % 4, v)
    tl.atomic_min(out + 4 + i % 4, v)
    tl.atomic_and(out + 8 + i % 4, v)
    tl.atomic_or(out + 12 + i % 4, v)
    tl.atomic_xor(out + 16 + i % 4, v)
    tl.store(old + i, tl.atomic_xchg(out + 20 + i, v))
    while tl.atomic_cas(out + 20 + 4 * BLOCK, 0, 1) != 0:
        pass
    tl.store(out + 21 + 4 * BLOCK, tl.load(out + 21 + 4 * BLOCK, volatile=True) + tl.sum(v, 0))
    tl.debug_barrier()
    tl.atomic_xchg(out + 20 + 4 * BLOCK, 0)


@triton.jit
def elementary(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v, w = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.exp(v))
    tl.store(out + n + i, tl.log(w))
    tl.store(out + 2 * n + i, tl.sin(v))
    tl.store(out + 3 * n + i, tl.cos(v))
    tl.store(out + 4 * n + i, tl.sqrt_rn(w))
    tl.store(out + 5 * n + i, tl.erf(v))
    tl.store(out + 6 * n + i, tl.rsqrt(w))
    tl.store(out + 7 * n + i, tl.floor(v) + 10 * tl.ceil(v))
    tl.store(out + 8 * n + i, libdevice.pow(w, v))
    tl.store(out + 9 * n + i, libdevice.tanh(v))
    tl.store(out + 10 * n + i, tl.div_rn(v, w))
    tl.store(out + 11 * n + i, tl.sigmoid(v))
    tl.store(out + 12 * n + i, libdevice.log1p(w))
    tl.store(out + 13 * n + i, libdevice.atan2(v, w))
    tl.store(out + 14 * n + i, tl.fma(v, w, v))
    tl.store(out + 15 * n + i, libdevice.round(v))


@triton.jit
def random_numbers(out, seed, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(out + i, a, mask=i < n)
    tl.store(out + n + i, b, mask=i < n)
    tl.store(out + 2 * n + i, c, mask=i < n)
    tl.store(out + 3 * n + i, d, mask=i < n)


@triton.jit
def integers(x, y, out, wide, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v, w = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, v // w)
    tl.store(out + n + i, v % w)
    tl.store(out + 2 * n + i, tl.umulhi(v, w))
    tl.store(out + 3 * n + i, (v << (w & 31)) ^ (v >> (w & 31)))
    tl.store(out + 4 * n + i, tl.abs(v) + tl.where(v < w, 1, 2))
    tl.store(out + 5 * n + i, tl.clamp(v.to(tl.float32), -1000.0, 1000.0).to(tl.int32))
    tl.store(wide + i, v.to(tl.int64) * w.to(tl.int64))
    tl.store(wide + n + i, v.to(tl.int64) * w.to(tl.int64) // (w.to(tl.int64) * 3 + 1))
    tl.store(wide + 2 * n + i, (v.to(tl.int16).to(tl.int64) << 8) + v.to(tl.uint8).to(tl.int64))


@triton.jit
def casts(x, half, brain, e4, e5, back, n, BLOCK: tl.constexpr, E4: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(half + i, v.to(tl.float16))
    tl.store(brain + i, v.to(tl.bfloat16))
    f5 = v.to(tl.float8e5)
    tl.store(e5 + i, f5)
    tl.store(back + i, f5.to(tl.float32))
    if E4:
        f4 = v.to(tl.float8e4nv)
        tl.store(e4 + i, f4)
        tl.store(back + n + i, f4.to(tl.float16).to(tl.float32))
        tl.store(back + 2 * n + i, f4.to(tl.bfloat16).to(tl.float32))


@triton.jit
def shapes(x, out, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    i = tl.arange(0, M * N)
    tl.store(out + i, tl.reshape(tl.trans(v), (M * N,)))
    a, b = tl.split(tl.reshape(v, (M, N // 2, 2)))
    tl.store(out + M * N + i, tl.reshape(tl.join(b, a), (M * N,)))
    tl.store(out + 2 * M * N + i, tl.reshape(tl.permute(tl.reshape(v, (M, 4, N // 4)), (1, 2, 0)), (M * N,)))
    tl.store(out + 3 * M * N + i, tl.reshape(tl.flip(v, 1), (M * N,)))
    tl.store(out + 4 * M * N + i, tl.reshape(tl.sort(v, 1), (M * N,)))
    picked = tl.gather(v, (tl.arange(0, M)[:, None] * 3 + tl.arange(0, N)[None, :]) % M, 0)
    tl.store(out + 5 * M * N + i, tl.reshape(picked, (M * N,)))
    h = tl.histogram(tl.reshape(v, (M * N,)).to(tl.int32) & 63, 64)
    tl.store(out + 6 * M * N + tl.arange(0, 64), h.to(tl.float32))


@triton.jit(noinline=True)
def _collatz(x):
    steps = 0
    while x != 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
    return steps


@triton.jit
def calls(x, out):
    pid = tl.program_id(0)
    v = tl.load(x + pid)
    tl.store(out + pid, _collatz(v) + 1000 * _collatz(v + 1))


@triton.jit
def asserts(x, out, limit, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.device_assert(v < limit, "below the limit")
    tl.device_print("v", v)
    tl.store(out + i, v)
