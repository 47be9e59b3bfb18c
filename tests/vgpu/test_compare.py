from __future__ import annotations

import operator

import numpy as np
import pytest

COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def as_word(elementwise, setp, inputs):
    return elementwise(f"{setp}; selp.u32 %y, 1, 0, %p1;", inputs, np.uint32).astype(bool)


@pytest.mark.parametrize(
    ("t", "dtype"),
    [
        ("s16", np.int16),
        ("u16", np.uint16),
        ("s32", np.int32),
        ("u32", np.uint32),
        ("s64", np.int64),
        ("u64", np.uint64),
    ],
)
def test_integers(elementwise, t, dtype):
    info = np.iinfo(dtype)
    a = np.array([info.min, info.max, 0, 1, 5, info.max // 2] * 6, dtype)
    b = np.repeat(a[:6], 6)
    for name, f in COMPARE.items():
        assert np.array_equal(as_word(elementwise, f"setp.{name}.{t} %p1, %x0, %x1", [a, b]), f(a, b)), name


@pytest.mark.parametrize(("t", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_floats_ordered_and_unordered(elementwise, t, dtype):
    a = np.array([0, -0.0, 1, -1, np.inf, np.nan] * 6, dtype)
    b = np.repeat(a[:6], 6)
    nan = np.isnan(a) | np.isnan(b)
    for name, f in COMPARE.items():
        assert np.array_equal(as_word(elementwise, f"setp.{name}.{t} %p1, %x0, %x1", [a, b]), f(a, b) & ~nan), name
        assert np.array_equal(as_word(elementwise, f"setp.{name}u.{t} %p1, %x0, %x1", [a, b]), f(a, b) | nan), name
    assert np.array_equal(as_word(elementwise, f"setp.nan.{t} %p1, %x0, %x1", [a, b]), nan)
    assert np.array_equal(as_word(elementwise, f"setp.num.{t} %p1, %x0, %x1", [a, b]), ~nan)


def test_two_results_and_a_third_operand(elementwise):
    a = np.arange(16, dtype=np.int32)
    body = """setp.gt.s32 %p3, %x0, 3; setp.lt.and.s32 %p1|%p2, %x0, 8, %p3;
        selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; or.b32 %y, %r1, %r2;"""
    want = [(1 if 3 < x < 8 else 0) | (2 if x >= 8 and x > 3 else 0) for x in range(16)]
    assert elementwise(body, [a], np.uint32).tolist() == want


def test_half_comparison(elementwise):
    a = np.array([0.5, 1.0, np.nan, -2.0], np.float16)
    b = np.array([1.0, 1.0, 1.0, -3.0], np.float16)
    got = as_word(elementwise, "setp.lt.f16 %p1, %x0, %x1", [a.view(np.uint16), b.view(np.uint16)])
    assert got.tolist() == [True, False, False, False]
    pair = [a.view(np.uint32), b.view(np.uint32)]
    got = elementwise(
        "setp.ge.f16x2 %p1|%p2, %x0, %x1; selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; or.b32 %y, %r1, %r2;",
        pair,
        np.uint32,
    )
    assert got.tolist() == [2, 2]


def test_set_and_selections(elementwise):
    a, b = np.array([1, 5, -3], np.int32), np.array([2, 5, -4], np.int32)
    assert elementwise("set.lt.u32.s32 %y, %x0, %x1;", [a, b], np.uint32).tolist() == [0xFFFFFFFF, 0, 0]
    assert elementwise("set.ge.f32.s32 %y, %x0, %x1;", [a, b], np.float32).tolist() == [0.0, 1.0, 1.0]
    sign = np.array([-1, 0, 7], np.int32)
    assert elementwise("slct.s32.s32 %y, %x0, %x1, %x2;", [a, b, sign], np.int32).tolist() == [2, 5, -3]


def test_slct_flushes_the_selector(elementwise):
    """PTX ISA, slct: a where c >= 0; .ftz makes -0 of a negative subnormal; NaN selects b."""
    c = np.array([-1.0, -0.0, 0.0, 1e-40, -1e-40, -1.1e-38, -1.2e-38, np.nan, np.inf, -np.inf], np.float32)
    a, b = np.full(10, 7, np.int32), np.full(10, -7, np.int32)
    plain = elementwise("slct.s32.f32 %y, %x0, %x1, %x2;", [a, b, c], np.int32)
    flushed = elementwise("slct.ftz.s32.f32 %y, %x0, %x1, %x2;", [a, b, c], np.int32)
    assert plain.tolist() == [-7, 7, 7, 7, -7, -7, -7, -7, 7, -7]
    assert flushed.tolist() == [-7, 7, 7, 7, 7, 7, -7, -7, 7, -7]
    wide = elementwise("slct.ftz.b64.f32 %y, %x0, %x1, %x2;", [a.astype(np.int64), b.astype(np.int64), c], np.int64)
    assert wide.tolist() == flushed.tolist()
