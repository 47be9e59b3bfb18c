from __future__ import annotations

import math

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INTS = {
    "s8": np.int8,
    "u8": np.uint8,
    "s16": np.int16,
    "u16": np.uint16,
    "s32": np.int32,
    "u32": np.uint32,
    "s64": np.int64,
    "u64": np.uint64,
}


def values(dtype, seed=0):
    info = np.iinfo(dtype)
    out = np.random.default_rng(seed).integers(info.min, info.max, 200, dtype=dtype, endpoint=True)
    out[:6] = np.array([info.min, info.max, 0, 1, info.max // 2, info.max // 3], dtype)
    return out


@pytest.mark.parametrize("source", INTS)
def test_integers(elementwise, source):
    a = values(INTS[source])
    for to, dtype in INTS.items():
        info = np.iinfo(dtype)
        assert np.array_equal(elementwise(f"cvt.{to}.{source} %y, %x0;", [a], dtype), a.astype(dtype)), to
        if info.min <= np.iinfo(a.dtype).min and np.iinfo(a.dtype).max <= info.max:
            continue  # nothing to saturate: not a spelling
        want = np.array([min(max(int(x), info.min), info.max) for x in a], dtype)
        assert np.array_equal(elementwise(f"cvt.sat.{to}.{source} %y, %x0;", [a], dtype), want), to


@pytest.mark.parametrize("source", INTS)
def test_integer_to_float(elementwise, source):
    a = values(INTS[source], 1)
    assert np.array_equal(elementwise(f"cvt.rn.f32.{source} %y, %x0;", [a], np.float32), a.astype(np.float32))
    assert np.array_equal(elementwise(f"cvt.rn.f64.{source} %y, %x0;", [a], np.float64), a.astype(np.float64))
    exact = np.array([int(x) for x in a], dtype=object)
    up = elementwise(f"cvt.rp.f32.{source} %y, %x0;", [a], np.float32)
    assert all(
        int(u) >= x and (u == 0 or int(np.nextafter(u, np.float32(-np.inf))) < x or int(u) == x)
        for u, x in zip(up, exact, strict=True)
    )


@pytest.mark.parametrize(("mode", "f"), [("rzi", math.trunc), ("rmi", math.floor), ("rpi", math.ceil), ("rni", round)])
@pytest.mark.parametrize("to", ["s32", "u32", "s64", "u8", "s16"])
def test_float_to_integer_clamps(elementwise, mode, f, to):
    rng = np.random.default_rng(2)
    a = (rng.standard_normal(200) * np.exp2(rng.integers(-2, 40, 200))).astype(np.float32)
    a[:6] = np.inf, -np.inf, np.nan, 0.5, 1.5, -0.5
    info = np.iinfo(INTS[to])

    def one(x):
        if math.isnan(x):  # PTX ISA, cvt: the highest bit when a type has 64 bits
            return info.min if to == "s64" else 0
        if math.isinf(x):
            return info.max if x > 0 else info.min
        return min(max(f(x), info.min), info.max)

    want = np.array([one(float(x)) for x in a], INTS[to])
    assert np.array_equal(elementwise(f"cvt.{mode}.{to}.f32 %y, %x0;", [a], INTS[to]), want)


@pytest.mark.parametrize(("kind", "dtype"), [("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_halves(elementwise, kind, dtype):
    codes = np.arange(65536, dtype=np.uint16)[::7].copy()
    want = torch.from_numpy(codes.view(np.int16)).view(dtype).float().numpy()
    got = elementwise(f"cvt.f32.{kind} %y, %x0;", [codes], np.float32)
    assert np.array_equal(got, want, equal_nan=True)
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(3000) * np.exp2(rng.integers(-30, 20, 3000))).astype(np.float32)
    want = torch.from_numpy(x).to(dtype).view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(elementwise(f"cvt.rn.{kind}.f32 %y, %x0;", [x], np.uint16), want)
    low = np.roll(want, 1).astype(np.uint32)
    got = elementwise(f"cvt.rn.{kind}x2.f32 %y, %x0, %x1;", [x, np.roll(x, 1)], np.uint32)
    assert np.array_equal(got, want.astype(np.uint32) << 16 | low)
    toward_zero = (
        torch.from_numpy(elementwise(f"cvt.rz.{kind}.f32 %y, %x0;", [x], np.uint16).view(np.int16))
        .view(dtype)
        .double()
        .numpy()
    )
    assert (np.abs(toward_zero) <= np.abs(x)).all()


@pytest.mark.parametrize(("kind", "dtype"), [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)])
def test_fp8(elementwise, kind, dtype):
    codes = np.arange(256, dtype=np.uint16)
    pairs = codes << 8 | codes[::-1]
    values8 = torch.from_numpy(codes.astype(np.uint8)).view(dtype)
    got = elementwise(f"cvt.rn.f16x2.{kind}x2 %y, %x0;", [pairs], np.uint32).view(np.float16).reshape(-1, 2)
    assert np.array_equal(got[:, 1], values8.half().numpy(), equal_nan=True)
    assert np.array_equal(got[:, 0], values8.half().numpy()[::-1], equal_nan=True)
    limit = float(torch.finfo(dtype).max)
    x = (np.random.default_rng(4).standard_normal(2000) * limit / 3).astype(np.float32)
    want = torch.from_numpy(x.clip(-limit, limit)).to(dtype).view(torch.uint8).numpy().astype(np.uint16)
    got = elementwise(f"cvt.rn.satfinite.{kind}x2.f32 %y, %x0, %x1;", [x, np.roll(x, 1)], np.uint16)
    assert np.array_equal(got, want << 8 | np.roll(want, 1))


def test_tf32_and_rounding_to_integers(elementwise):
    x = np.random.default_rng(5).standard_normal(500).astype(np.float32)
    got = elementwise("cvt.rna.tf32.f32 %y, %x0;", [x], np.uint32)
    assert np.array_equal(got, (x.view(np.uint32) + 0x1000) & 0xFFFFE000)
    x *= 10
    assert np.array_equal(elementwise("cvt.rni.f32.f32 %y, %x0;", [x], np.float32), np.rint(x))
    assert np.array_equal(elementwise("cvt.rmi.f32.f32 %y, %x0;", [x], np.float32), np.floor(x))
    assert np.array_equal(elementwise("cvt.sat.f32.f32 %y, %x0;", [x], np.float32), x.clip(0, 1))
    wide = x.astype(np.float64) / 3
    assert np.array_equal(elementwise("cvt.rn.f32.f64 %y, %x0;", [wide], np.float32), wide.astype(np.float32))
    assert np.array_equal(elementwise("cvt.f64.f32 %y, %x0;", [x], np.float64), x.astype(np.float64))
