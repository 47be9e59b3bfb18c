from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORD = st.integers(0, 2**32 - 1)


def words(n=300, seed=0, dtype=np.uint32):
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, n, dtype=dtype, endpoint=True)


def u32(*x):
    return [np.array([v & 0xFFFFFFFF], np.uint32) for v in x]


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic(elementwise, bits):
    dtype = np.dtype(f"uint{bits}").type
    a, b = words(seed=1, dtype=dtype), words(seed=2, dtype=dtype)
    for name, f in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
        assert np.array_equal(elementwise(f"{name}.b{bits} %y, %x0, %x1;", [a, b], dtype), f(a, b))
    assert np.array_equal(elementwise(f"not.b{bits} %y, %x0;", [a], dtype), ~a)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp(elementwise, bits):
    dtype, signed = np.dtype(f"uint{bits}").type, np.dtype(f"int{bits}").type
    a = words(n=70, seed=3, dtype=dtype)
    n = np.arange(70, dtype=np.uint32)
    left = [(int(x) << int(k)) & ((1 << bits) - 1) for x, k in zip(a, n, strict=True)]
    assert elementwise(f"shl.b{bits} %y, %x0, %x1;", [a, n], dtype).tolist() == left
    right = [int(x) >> int(k) for x, k in zip(a, n, strict=True)]
    assert elementwise(f"shr.u{bits} %y, %x0, %x1;", [a, n], dtype).tolist() == right
    s = a.view(signed)
    right = [int(x) >> int(k) for x, k in zip(s, n, strict=True)]
    assert elementwise(f"shr.s{bits} %y, %x0, %x1;", [s, n], signed).tolist() == right


@QUICK
@given(WORD, WORD, st.integers(0, 70))
def test_funnel_shift(elementwise, a, b, n):
    both = b << 32 | a
    x = u32(a, b, n)
    assert elementwise("shf.l.wrap.b32 %y, %x0, %x1, %x2;", x, np.uint32)[0] == (both << (n & 31)) >> 32 & 0xFFFFFFFF
    assert elementwise("shf.r.wrap.b32 %y, %x0, %x1, %x2;", x, np.uint32)[0] == both >> (n & 31) & 0xFFFFFFFF
    assert elementwise("shf.r.clamp.b32 %y, %x0, %x1, %x2;", x, np.uint32)[0] == both >> min(n, 32) & 0xFFFFFFFF


@QUICK
@given(WORD, WORD, st.integers(0, 0xFFFF))
def test_prmt(elementwise, a, b, selector):
    source = list((b << 32 | a).to_bytes(8, "little"))
    picks = [(selector >> 4 * k) & 0xF for k in range(4)]
    want = [source[p & 7] if p < 8 else 0xFF * (source[p & 7] >> 7) for p in picks]
    got = elementwise("prmt.b32 %y, %x0, %x1, %x2;", u32(a, b, selector), np.uint32)[0]
    assert got == int.from_bytes(want, "little")


@QUICK
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 40), st.integers(0, 40))
def test_bit_fields(elementwise, a, b, at, length):
    ones = (1 << length) - 1
    x = u32(a, at, length)
    assert elementwise("bfe.u32 %y, %x0, %x1, %x2;", x, np.uint32)[0] == (a >> at) & ones & 0xFFFFFFFF
    sign = (a >> min(at + length - 1, 31)) & 1 if length else 0
    want = ((a >> at) & ones & 0xFFFFFFFF) if at < 32 else 0
    if sign:
        want |= ~((1 << min(length, max(32 - at, 0))) - 1)
    got = elementwise("bfe.s32 %y, %x0, %x1, %x2;", x, np.uint32)[0]
    assert got == (want & 0xFFFFFFFF if length else 0)
    got = elementwise("bfi.b32 %y, %x0, %x1, %x2, %x3;", u32(a, b, at, length), np.uint32)[0]
    assert got == ((b & ~(ones << at)) | ((a & ones) << at)) & 0xFFFFFFFF


@pytest.mark.parametrize("bits", [32, 64])
def test_counts_and_searches(elementwise, bits):
    dtype = np.dtype(f"uint{bits}").type
    a = words(n=100, seed=4, dtype=dtype) >> (np.arange(100) % bits).astype(dtype)
    a[:2] = 0, np.iinfo(dtype).max
    assert elementwise(f"popc.b{bits} %y, %x0;", [a], np.uint32).tolist() == [int(x).bit_count() for x in a]
    assert elementwise(f"clz.b{bits} %y, %x0;", [a], np.uint32).tolist() == [bits - int(x).bit_length() for x in a]
    want = [int(x).bit_length() - 1 if x else 0xFFFFFFFF for x in a]
    assert elementwise(f"bfind.u{bits} %y, %x0;", [a], np.uint32).tolist() == want
    want = [int(f"{int(x):0{bits}b}"[::-1], 2) for x in a]
    assert elementwise(f"brev.b{bits} %y, %x0;", [a], dtype).tolist() == want


@pytest.mark.parametrize("table", [0x00, 0x96, 0xE8, 0x1B, 0xFF])
def test_lop3(elementwise, table):
    a, b, c = words(seed=5), words(seed=6), words(seed=7)
    want = np.zeros_like(a)
    for k in range(32):
        index = ((a >> k & 1) << 2) | ((b >> k & 1) << 1) | (c >> k & 1)
        want |= ((table >> index) & 1).astype(np.uint32) << np.uint32(k)
    assert np.array_equal(elementwise(f"lop3.b32 %y, %x0, %x1, %x2, {table};", [a, b, c], np.uint32), want)


def test_masks_and_nth_bit(elementwise):
    at, length = np.array([0, 4, 28, 40], np.uint32), np.array([32, 8, 8, 3], np.uint32)
    got = elementwise("bmsk.clamp.b32 %y, %x0, %x1;", [at, length], np.uint32)
    assert got.tolist() == [0xFFFFFFFF, 0xFF0, 0xF0000000, 0]
    mask, base, n = (
        np.array([0b101101] * 4, np.uint32),
        np.array([0, 0, 5, 1], np.uint32),
        np.array([2, 4, -2, 0], np.int32),
    )
    assert elementwise("fns.b32 %y, %x0, %x1, %x2;", [mask, base, n], np.uint32).tolist() == [2, 5, 3, 0xFFFFFFFF]


def test_predicate_logic(elementwise):
    a = np.arange(8, dtype=np.uint32)
    body = """setp.gt.u32 %p1, %x0, 2; setp.lt.u32 %p2, %x0, 6; and.pred %p3, %p1, %p2; not.pred %p4, %p3;
        xor.pred %p5, %p4, %p1; selp.u32 %r1, 1, 0, %p3; selp.u32 %r2, 2, 0, %p5; or.b32 %y, %r1, %r2;"""
    want = [(2 < x < 6) | ((not 2 < x < 6) != (x > 2)) << 1 for x in range(8)]
    assert elementwise(body, [a], np.uint32).tolist() == want


@pytest.mark.parametrize("operation", ["and", "or"])
@pytest.mark.parametrize("sink", [False, True])
def test_lop3_with_a_predicate(elementwise, operation, sink):
    """p is whether the result is not zero, combined with q."""
    rng = np.random.default_rng(8)
    a, b, c, q = (rng.integers(0, 4, 200, dtype=np.uint32) for _ in range(4))
    q &= 1
    result = a & b & c  # table 0x80
    p = ((result != 0) & (q != 0)) if operation == "and" else ((result != 0) | (q != 0))
    text = "setp.ne.u32 %p1, %x3, 0;\n"
    text += f"lop3.{operation}.b32 {'_' if sink else '%r9'}|%p2, %x0, %x1, %x2, 0x80, %p1;\nselp.u32 %y, 16, 0, %p2;"
    text += "" if sink else "\nadd.u32 %y, %y, %r9;"
    assert np.array_equal(elementwise(text, [a, b, c, q], np.uint32), 16 * p + (0 if sink else result))
