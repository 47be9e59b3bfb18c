from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 3.4e38, 1.5, -2.5]


def samples(dtype=np.float32, n=400, seed=0):
    rng = np.random.default_rng(seed)
    out = (rng.standard_normal(n) * np.exp2(rng.integers(-20, 20, n))).astype(dtype)
    grid = np.array(SPECIAL, np.float64).astype(dtype)
    out[: len(grid) ** 2] = np.tile(grid, len(grid))[:n] if seed % 2 else np.repeat(grid, len(grid))[:n]
    return out


def same(a, b):
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)])
    )


@pytest.mark.parametrize(("t", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_arithmetic_is_correctly_rounded(elementwise, t, dtype):
    a, b = samples(dtype, seed=0), samples(dtype, seed=1)
    mode = ".rn" if t == "f64" else ""
    assert same(elementwise(f"add{mode}.{t} %y, %x0, %x1;", [a, b], dtype), a + b)
    assert same(elementwise(f"sub{mode}.{t} %y, %x0, %x1;", [a, b], dtype), a - b)
    assert same(elementwise(f"mul{mode}.{t} %y, %x0, %x1;", [a, b], dtype), a * b)
    assert same(elementwise(f"div.rn.{t} %y, %x0, %x1;", [a, b], dtype), a / b)
    assert same(elementwise(f"sqrt.rn.{t} %y, %x0;", [a], dtype), np.sqrt(a))
    assert same(elementwise(f"rcp.rn.{t} %y, %x0;", [a], dtype), dtype(1) / a)


def directed(exact: Fraction, mode: str) -> np.float32:
    near = np.float32(float(exact))
    at = Fraction(float(near))
    if at == exact or mode == "rn":
        return near
    up = {"rp": True, "rm": False, "rz": exact < 0}[mode]
    if up and at < exact:
        return np.nextafter(near, np.float32(np.inf))
    if not up and at > exact:
        return np.nextafter(near, np.float32(-np.inf))
    return near


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding(elementwise, mode):
    rng = np.random.default_rng(7)
    a, b, c = (rng.standard_normal(200).astype(np.float32) for _ in range(3))
    rows = [tuple(Fraction(float(x)) for x in row) for row in zip(a, b, c, strict=True)]
    cases = {
        f"add.{mode}.f32 %y, %x0, %x1;": [x + y for x, y, _ in rows],
        f"mul.{mode}.f32 %y, %x0, %x1;": [x * y for x, y, _ in rows],
        f"div.{mode}.f32 %y, %x0, %x1;": [x / y for x, y, _ in rows],
    }
    for ptx, exact in cases.items():
        want = np.array([directed(e, mode) for e in exact])
        assert np.array_equal(elementwise(ptx, [a, b], np.float32), want), ptx
    want = np.array([directed(x * y + z, mode) for x, y, z in rows])
    assert np.array_equal(elementwise(f"fma.{mode}.f32 %y, %x0, %x1, %x2;", [a, b, c], np.float32), want)


def test_fma_rounds_once(elementwise):
    rng = np.random.default_rng(3)
    a = rng.standard_normal(300).astype(np.float32)
    b = (1 / a).astype(np.float32)
    c = np.full(300, -1, np.float32)
    want = np.array([np.float32(float(Fraction(float(x)) * Fraction(float(y)) - 1)) for x, y in zip(a, b, strict=True)])
    assert np.array_equal(elementwise("fma.rn.f32 %y, %x0, %x1, %x2;", [a, b, c], np.float32), want)


def test_min_max_nan_rules(elementwise):
    a, b = samples(seed=0), samples(seed=1)
    want = np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.maximum(a, b)))
    got = elementwise("max.f32 %y, %x0, %x1;", [a, b], np.float32)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(
        elementwise("min.NaN.f32 %y, %x0, %x1;", [a, b], np.float32), np.minimum(a, b), equal_nan=True
    )
    zero = np.array([0.0, -0.0], np.float32)
    assert not np.signbit(elementwise("max.f32 %y, %x0, %x1;", [zero, zero[::-1].copy()], np.float32)).any()
    assert np.signbit(elementwise("min.f32 %y, %x0, %x1;", [zero, zero[::-1].copy()], np.float32)).all()


def test_flush_and_saturate(elementwise):
    tiny = np.array([1e-40, -1e-40, 1e-30, 2.0, -3.0, np.nan], np.float32)
    one = np.ones(6, np.float32)
    got = elementwise("mul.ftz.f32 %y, %x0, %x1;", [tiny, one], np.float32)
    assert same(got, np.array([0.0, -0.0, 1e-30, 2.0, -3.0, np.nan], np.float32))
    got = elementwise("mul.sat.f32 %y, %x0, %x1;", [tiny, one], np.float32)
    assert np.array_equal(got, np.array([1e-40, 0, 1e-30, 1, 0, 0], np.float32))


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("ex2", np.exp2),
        ("lg2", np.log2),
        ("sin", np.sin),
        ("cos", np.cos),
        ("tanh", np.tanh),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
    ],
)
def test_special_functions_within_two_ulp(elementwise, name, f):
    x = np.random.default_rng(5).uniform(0.01 if name in ("lg2", "rsqrt") else -30, 30, 500).astype(np.float32)
    got = elementwise(f"{name}.approx.f32 %y, %x0;", [x], np.float32)
    want = f(x.astype(np.float64))
    assert np.max(np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))) <= 2


def test_ex2_extremes(elementwise):
    x = np.array([-np.inf, np.inf, np.nan, -149, -150, 127, 128, 0], np.float32)
    got = elementwise("ex2.approx.f32 %y, %x0;", [x], np.float32)
    assert np.array_equal(
        got, np.array([0, np.inf, np.nan, 2.0**-149, 0, 2.0**127, np.inf, 1], np.float32), equal_nan=True
    )


def test_copysign_testp(elementwise):
    a, b = samples(seed=2), samples(seed=3)
    got = elementwise("copysign.f32 %y, %x0, %x1;", [a, b], np.float32)
    assert same(got, np.copysign(b, a))
    body = "testp.{} .f32 %p1, %x0; selp.u32 %y, 1, 0, %p1;"
    tests = {
        "finite": np.isfinite(a),
        "infinite": np.isinf(a),
        "notanumber": np.isnan(a),
        "subnormal": (np.abs(a) < 2.0**-126) & (a != 0),
    }
    for kind, want in tests.items():
        assert np.array_equal(elementwise(body.format(kind), [a], np.uint32), want.astype(np.uint32)), kind
