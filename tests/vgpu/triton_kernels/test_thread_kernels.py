"""Kernels on ordinary threads as Triton compiles them, against torch and numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from launches import MODES, cases, clean, run

F64 = np.float64


@pytest.fixture(name="rng")
def rng_fixture():
    return np.random.default_rng(7)


@pytest.mark.parametrize(("name", "target"), cases("add"))
def test_masked_addition(name, target, rng):
    x, y = (rng.standard_normal(2500, np.float32) for _ in range(2))
    out = np.full(2501, 9, np.float32)
    clean(name, target, 3, [x, y, out, 2500])
    np.testing.assert_array_equal(out[:2500], x + y)
    assert out[2500] == 9


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "target"), cases("softmax"))
def test_softmax(name, target, mode):
    x = torch.randn(5, 400, generator=torch.Generator().manual_seed(0)).half()
    out = torch.zeros_like(x)
    clean(name, target, 5, [x, out, 400, 395], mode)
    want = x[:, :395].double().softmax(-1)
    assert torch.allclose(out[:, :395].double(), want, rtol=2e-3, atol=1e-7)
    assert not out[:, 395:].any()


@pytest.mark.parametrize(("name", "target"), cases("layer_norm"))
def test_layer_norm(name, target):
    random = torch.Generator().manual_seed(1)
    x = torch.randn(3, 700, generator=random).bfloat16()
    weight, bias = (torch.randn(700, generator=random) for _ in range(2))
    out, mean, rstd = torch.zeros_like(x), torch.zeros(3), torch.zeros(3)
    clean(name, target, 3, [x, weight, bias, out, mean, rstd, 700, 1e-5])
    wide = x.double()
    want = torch.nn.functional.layer_norm(wide, (700,), weight.double(), bias.double(), 1e-5)
    assert torch.allclose(out.double(), want, rtol=8e-3, atol=1e-5)
    assert torch.allclose(mean.double(), wide.mean(-1), atol=1e-6)
    assert torch.allclose(rstd.double(), (wide.var(-1, correction=0) + 1e-5).rsqrt(), rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "target"), cases("reductions"))
def test_reductions(name, target, mode, rng):
    x = (rng.permutation(512) * 0.25 - 64).astype(np.float32).reshape(8, 64)  # sums are exact
    out, index = np.zeros(24 + 64, np.float32), np.zeros(8 + 128, np.int32)
    clean(name, target, 1, [x, out, index], mode)
    np.testing.assert_array_equal(out, np.concatenate([x.sum(1), x.max(1), x.min(1), x.sum(0)]))
    xors = np.bitwise_xor.reduce(np.trunc(x).astype(np.int32), 0)
    np.testing.assert_array_equal(index, np.concatenate([x.argmax(1), x.argmin(0), xors]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "target"), cases("scans"))
def test_scans(name, target, mode, rng):
    x = rng.uniform(0.8, 1.2, (8, 64)).astype(np.float32)
    y = rng.uniform(0.8, 1.2, (8, 64)).astype(np.float32)
    out = np.zeros((5, 8, 64), np.float32)
    clean(name, target, 1, [x, y, out], mode)
    a, b = x.astype(F64), y.astype(F64)
    affine, value = np.empty_like(a), np.zeros(8)
    for k in range(64):  # v -> a * v + b, composed from the left
        value = value * a[:, k] + b[:, k]
        affine[:, k] = value
    want = [a.cumsum(1), a[::-1].cumsum(0)[::-1], a.cumprod(1), affine, b.cumprod(1)]
    np.testing.assert_allclose(out, np.stack(want), rtol=3e-5)


@pytest.mark.parametrize(("name", "target"), cases("gather_scatter"))
def test_gather_and_scatter(name, target, rng):
    x = rng.standard_normal(50, np.float32)
    index = rng.integers(-10, 60, 600).astype(np.int32)
    out, count = np.zeros(600, np.float32), np.zeros(50, np.int32)
    clean(name, target, 3, [x, index, out, count, 600, 50])
    inside = (index >= 0) & (index < 50)
    np.testing.assert_array_equal(out, np.where(inside, x[np.clip(index, 0, 49)], -7))
    np.testing.assert_array_equal(count, np.bincount(index[inside], minlength=50))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "target"), cases("atomics"))
def test_atomics_and_a_lock(name, target, mode, rng):
    blocks, size = 4, 128
    x = rng.integers(-(2**20), 2**20, blocks * size).astype(np.int32)
    out = np.zeros(20 + 4 * size + 2, np.int32)
    out[4:8] = 2**30
    out[8:12] = -1
    out[20 : 20 + 4 * size] = np.arange(4 * size)
    old = np.zeros(blocks * size, np.int32)
    clean(name, target, blocks, [x, out, old], mode, threads=2)
    groups = x.reshape(-1, 4)
    want = [groups.max(0).clip(0), groups.min(0)]
    want += [op.reduce(groups, 0) for op in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    np.testing.assert_array_equal(out[:20].reshape(5, 4), want)
    np.testing.assert_array_equal(out[20:-2], x)
    np.testing.assert_array_equal(old, np.arange(4 * size))
    assert out[-2:].tolist() == [0, x.sum()]


@pytest.mark.parametrize(("name", "target"), cases("elementary"))
def test_elementary_functions(name, target, rng):
    x = rng.uniform(-5, 5, 128).astype(np.float32)
    y = rng.uniform(0.1, 4, 128).astype(np.float32)
    out = np.zeros((16, 128), np.float32)
    clean(name, target, 1, [x, y, out, 128])
    a, b = x.astype(F64), y.astype(F64)
    erf = torch.from_numpy(a).erf().numpy()
    want = [np.exp(a), np.log(b), np.sin(a), np.cos(a), np.sqrt(b), erf, 1 / np.sqrt(b), np.floor(a) + 10 * np.ceil(a)]
    want += [b**a, np.tanh(a), a / b, 1 / (1 + np.exp(-a)), np.log1p(b), np.arctan2(a, b), a * b + a]
    want += [np.copysign(np.floor(abs(a) + 0.5), a)]
    np.testing.assert_allclose(out, np.stack(want), rtol=2e-6, atol=2e-6)
    for row in (4, 7, 10, 15):  # correctly rounded
        np.testing.assert_array_equal(out[row], want[row].astype(np.float32))


def philox(counter, key):
    """Philox4x32-10 of Salmon et al. 2011, over an array of first counter words."""
    words = [counter.astype(np.uint64)] + [np.zeros_like(counter, np.uint64)] * 3
    low, high = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    m0, m1, mask, half = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57), np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0, p1 = m0 * words[0], m1 * words[2]
        words = [(p1 >> half) ^ words[1] ^ low, p1 & mask, (p0 >> half) ^ words[3] ^ high, p0 & mask]
        low, high = (low + np.uint64(0x9E3779B9)) & mask, (high + np.uint64(0xBB67AE85)) & mask
    return np.stack(words).astype(np.uint32)


@pytest.mark.parametrize(("name", "target"), cases("random_numbers"))
def test_philox(name, target):
    out = np.zeros((4, 300), np.uint32)
    clean(name, target, 3, [out, 12345, 300])
    np.testing.assert_array_equal(out, philox(np.arange(300), 12345))


def quotient(v, w):  # towards zero
    return abs(v) // abs(w) * (1 if (v < 0) == (w < 0) else -1)


def wrap(v, bits=32):
    return (v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


@pytest.mark.parametrize(("name", "target"), cases("integers"))
def test_integers(name, target, rng):
    x = rng.integers(-(2**31), 2**31, 128).astype(np.int32)
    y = rng.integers(1, 2**31, 128).astype(np.int32) * rng.choice([-1, 1], 128).astype(np.int32)
    out, wide = np.zeros((6, 128), np.int32), np.zeros((3, 128), np.int64)
    clean(name, target, 1, [x, y, out, wide, 128])
    pairs = [(int(v), int(w)) for v, w in zip(x, y, strict=True)]
    want = [
        [quotient(v, w) for v, w in pairs],
        [v - quotient(v, w) * w for v, w in pairs],
        [wrap((v % 2**32) * (w % 2**32) >> 32) for v, w in pairs],
        [wrap((v << (w & 31)) ^ (v >> (w & 31))) for v, w in pairs],
        [wrap(abs(v) + (1 if v < w else 2)) for v, w in pairs],
        [max(-1000, min(1000, v)) for v, _ in pairs],
    ]
    np.testing.assert_array_equal(out, want)
    want = [
        [v * w for v, w in pairs],
        [quotient(v * w, 3 * w + 1) for v, w in pairs],
        [(wrap(v, 16) << 8) + v % 256 for v, _ in pairs],
    ]
    np.testing.assert_array_equal(wide, want)


def rounded(x, dtype):
    """Nearest even, by torch; what is beyond an fp8 range saturates."""
    limit = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}.get(dtype, float("inf"))
    return torch.from_numpy(x).clamp(-limit, limit).to(dtype)


@pytest.mark.parametrize(("name", "target"), cases("casts", "casts_e5"))
def test_conversions(name, target, rng):
    x = (rng.standard_normal(512) * np.exp2(rng.integers(-20, 15, 512))).astype(np.float32)
    dtypes = [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
    out = [torch.zeros(512, dtype=t) for t in dtypes]
    back = torch.zeros(3, 512)
    clean(name, target, 1, [torch.from_numpy(x), *out, back, 512])
    for k, dtype in enumerate(dtypes):
        if name == "casts" or dtype != torch.float8_e4m3fn:
            assert torch.equal(out[k].float(), rounded(x, dtype).float()), dtype
    e5, e4 = (rounded(x, t).float() for t in (torch.float8_e5m2, torch.float8_e4m3fn))
    assert torch.equal(back, torch.stack([e5, e4, e4]) if name == "casts" else torch.stack([e5, 0 * e5, 0 * e5]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "target"), cases("shapes"))
def test_reshapes(name, target, mode, rng):
    m, n = 8, 32
    x = rng.permutation(m * n).astype(np.float32).reshape(m, n)
    out = np.zeros(6 * m * n + 64, np.float32)
    clean(name, target, 1, [x, out], mode)
    pairs = x.reshape(m, n // 2, 2)
    picked = x[(np.arange(m)[:, None] * 3 + np.arange(n)) % m, np.arange(n)]
    want = [x.T, pairs[..., ::-1], x.reshape(m, 4, n // 4).transpose(1, 2, 0), x[:, ::-1], np.sort(x, 1), picked]
    want += [np.bincount(x.astype(int).ravel() & 63, minlength=64)]
    np.testing.assert_array_equal(out, np.concatenate([w.ravel() for w in want]))


@pytest.mark.parametrize(("name", "target"), cases("calls"))
def test_functions_that_are_called(name, target):
    x = np.arange(1, 9, dtype=np.int32)
    out = np.zeros(8, np.int32)
    clean(name, target, 8, [x, out])

    def steps(v):
        return 0 if v == 1 else 1 + steps(v // 2 if v % 2 == 0 else 3 * v + 1)

    assert out.tolist() == [steps(int(v)) + 1000 * steps(int(v) + 1) for v in x]


@pytest.mark.parametrize(("name", "target"), cases("asserts"))
def test_assertions_and_printing(name, target):
    x, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    report = clean(name, target, 1, [x, out, 128])
    np.testing.assert_array_equal(out, x)
    lines = report.output.strip().splitlines()
    assert len(lines) == 128
    assert "pid (0, 0, 0)" in lines[5]
    assert {int(line.split()[-1]) for line in lines} == set(range(128))
    report = run(name, target, 1, [x, out, 100])
    assert {f.kind for f in report.findings} == {"assertion"}
    assert "below the limit" in report.findings[0].message
