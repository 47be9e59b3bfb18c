from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
DTYPES = {"s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64}


def values(dtype, n=300, seed=0):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    out = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    edges = [info.min, info.max, 0, 1, info.max // 2, info.min + 1]
    out[: len(edges)] = np.array(edges, dtype=dtype)
    return out


def exact(f, dtype, *arrays):
    """Python integers, wrapped to the type."""
    bits = np.iinfo(dtype).bits
    out = []
    for row in zip(*arrays, strict=True):
        value = f(*(int(x) for x in row)) & ((1 << bits) - 1)
        out.append(value - (1 << bits) if np.iinfo(dtype).min < 0 and value >> (bits - 1) else value)
    return np.array(out, dtype=dtype)


def truncated(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


@pytest.mark.parametrize("t", DTYPES)
def test_wrapping_arithmetic(elementwise, t):
    a, b, c = (values(DTYPES[t], seed=s) for s in (1, 2, 3))
    b[: len(b) // 2] = np.roll(a, 3)[: len(b) // 2]
    bits = np.iinfo(a.dtype).bits
    cases = {
        f"add.{t} %y, %x0, %x1;": lambda x, y: x + y,
        f"sub.{t} %y, %x0, %x1;": lambda x, y: x - y,
        f"mul.lo.{t} %y, %x0, %x1;": lambda x, y: x * y,
        f"mul.hi.{t} %y, %x0, %x1;": lambda x, y: (x * y) >> bits,
        f"min.{t} %y, %x0, %x1;": min,
        f"max.{t} %y, %x0, %x1;": max,
    }
    for ptx, f in cases.items():
        assert np.array_equal(elementwise(ptx, [a, b], a.dtype), exact(f, a.dtype, a, b)), ptx
    got = elementwise(f"mad.lo.{t} %y, %x0, %x1, %x2;", [a, b, c], a.dtype)
    assert np.array_equal(got, exact(lambda x, y, z: x * y + z, a.dtype, a, b, c))
    got = elementwise(f"mad.hi.{t} %y, %x0, %x1, %x2;", [a, b, c], a.dtype)
    assert np.array_equal(got, exact(lambda x, y, z: ((x * y) >> bits) + z, a.dtype, a, b, c))
    got = elementwise(f"sad.{t} %y, %x0, %x1, %x2;", [a, b, c], a.dtype)
    assert np.array_equal(got, exact(lambda x, y, z: abs(x - y) + z, a.dtype, a, b, c))


@pytest.mark.parametrize("t", DTYPES)
def test_division_truncates(elementwise, t):
    a, b = values(DTYPES[t], seed=4), values(DTYPES[t], seed=5)
    b[b == 0] = 3
    assert np.array_equal(elementwise(f"div.{t} %y, %x0, %x1;", [a, b], a.dtype), exact(truncated, a.dtype, a, b))
    want = exact(lambda x, y: x - y * truncated(x, y), a.dtype, a, b)
    assert np.array_equal(elementwise(f"rem.{t} %y, %x0, %x1;", [a, b], a.dtype), want)


@pytest.mark.parametrize(("t", "wide"), [("s16", np.int32), ("u16", np.uint32), ("s32", np.int64), ("u32", np.uint64)])
def test_wide_multiplication(elementwise, t, wide):
    a, b, c = values(DTYPES[t], seed=6), values(DTYPES[t], seed=7), values(wide, seed=8)
    got = elementwise(f"mul.wide.{t} %y, %x0, %x1;", [a, b], wide)
    assert np.array_equal(got, a.astype(wide) * b.astype(wide))
    got = elementwise(f"mad.wide.{t} %y, %x0, %x1, %x2;", [a, b, c], wide)
    assert np.array_equal(got, a.astype(wide) * b.astype(wide) + c)


def test_saturation_abs_neg(elementwise):
    a, b = values(np.int32, seed=9), values(np.int32, seed=10)
    info = np.iinfo(np.int32)
    got = elementwise("add.sat.s32 %y, %x0, %x1;", [a, b], np.int32)
    assert np.array_equal(got, np.clip(a.astype(np.int64) + b, info.min, info.max).astype(np.int32))
    got = elementwise("sub.sat.s32 %y, %x0, %x1;", [a, b], np.int32)
    assert np.array_equal(got, np.clip(a.astype(np.int64) - b, info.min, info.max).astype(np.int32))
    assert np.array_equal(elementwise("abs.s32 %y, %x0;", [a], np.int32), exact(abs, a.dtype, a))
    assert np.array_equal(elementwise("neg.s32 %y, %x0;", [a], np.int32), exact(lambda x: -x, a.dtype, a))


def test_24_bit(elementwise):
    a, b, c = values(np.uint32, seed=11), values(np.uint32, seed=12), values(np.uint32, seed=13)
    low = np.uint64(0xFFFFFF)
    product = (a & low) * (b & low)
    got = elementwise("mad24.lo.u32 %y, %x0, %x1, %x2;", [a, b, c], np.uint32)
    assert np.array_equal(got, (product + c).astype(np.uint32))
    got = elementwise("mul24.hi.u32 %y, %x0, %x1;", [a, b], np.uint32)
    assert np.array_equal(got, (product >> np.uint64(16)).astype(np.uint32))


def test_carry_chain_adds_128_bits(elementwise):
    a, b, c, d = (values(np.uint64, seed=s) for s in (14, 15, 16, 17))
    high = elementwise("add.cc.u64 %d9, %x0, %x2; addc.u64 %y, %x1, %x3;", [a, b, c, d], np.uint64)
    want = [
        ((int(x) + int(z) + ((int(y) + int(w)) << 64)) >> 64) & (2**64 - 1)
        for x, y, z, w in zip(a, b, c, d, strict=True)
    ]
    assert high.tolist() == want
    high = elementwise("sub.cc.u64 %d9, %x0, %x2; subc.u64 %y, %x1, %x3;", [a, b, c, d], np.uint64)
    want = [
        ((int(x) - int(z) + ((int(y) - int(w)) << 64)) >> 64) & (2**64 - 1)
        for x, y, z, w in zip(a, b, c, d, strict=True)
    ]
    assert high.tolist() == want


def test_dot_products(elementwise):
    a, b, c = values(np.int32, seed=18), values(np.int32, seed=19), values(np.int32, seed=20)
    x, y = a.view(np.int8).reshape(-1, 4).astype(np.int64), b.view(np.uint8).reshape(-1, 4).astype(np.int64)
    got = elementwise("dp4a.s32.u32 %y, %x0, %x1, %x2;", [a, b, c], np.int32)
    assert np.array_equal(got, ((x * y).sum(1) + c).astype(np.int32))
    pairs = a.view(np.uint16).reshape(-1, 2).astype(np.int64)
    got = elementwise("dp2a.hi.u32.u32 %y, %x0, %x1, %x2;", [a, b, c], np.int32)
    assert np.array_equal(got, ((pairs * y[:, 2:]).sum(1) + c).astype(np.int32))


@QUICK
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_distributes(elementwise, x, y):
    a, b = np.array([x], np.int32), np.array([y], np.int32)
    left = elementwise("add.s32 %r1, %x0, %x1; mul.lo.s32 %y, %r1, 7;", [a, b], np.int32)
    right = elementwise("mul.lo.s32 %r1, %x1, 7; mad.lo.s32 %y, %x0, 7, %r1;", [a, b], np.int32)
    assert left == right == exact(lambda p, q: (p + q) * 7, np.int32, a, b)


@pytest.mark.parametrize(("name", "function"), [("min", np.minimum), ("max", np.maximum)])
def test_relu_of_signed_halves(elementwise, name, function):
    rng = np.random.default_rng(9)
    a, b = (rng.integers(0, 2**32, 300, dtype=np.uint32) for _ in range(2))
    a[:4], b[:4] = [0x80007FFF, 0xFFFF0000, 0x00010001, 0x7FFF8000], [0x80008000, 0x00007FFF, 0xFFFFFFFF, 0]
    found = elementwise(f"{name}.relu.s16x2 %y, %x0, %x1;", [a, b], np.uint32)
    want = np.maximum(function(a.view(np.int16), b.view(np.int16)), 0)
    assert np.array_equal(found.view(np.int16), want)
