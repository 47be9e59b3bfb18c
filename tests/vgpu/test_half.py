from __future__ import annotations

import numpy as np
import pytest
import torch

KINDS = {"f16": torch.float16, "bf16": torch.bfloat16}


def operands(kind, count, n=2000):
    """Random codes of all values, as integers, and as float64."""
    rng = np.random.default_rng(count)
    codes = [rng.integers(0, 65536, n).astype(np.uint16) for _ in range(count)]
    return codes, [torch.from_numpy(c.view(np.int16)).view(KINDS[kind]).double() for c in codes]


def check(kind, got, want):
    value = torch.from_numpy(got.view(np.int16)).view(KINDS[kind])
    want = want.to(KINDS[kind])
    assert torch.equal(torch.isnan(value), torch.isnan(want))
    assert torch.equal(value[~torch.isnan(want)], want[~torch.isnan(want)])


@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic(elementwise, kind):
    (a, b), (x, y) = operands(kind, 2)
    for name, f in {"add": torch.add, "sub": torch.sub, "mul": torch.mul}.items():
        # float32 holds sums and products of these formats closely enough that one more rounding is exact
        want = f(x.float(), y.float())
        check(kind, elementwise(f"{name}.rn.{kind} %y, %x0, %x1;", [a, b], np.uint16), want)


@pytest.mark.parametrize("kind", KINDS)
def test_fma_of_moderate_values(elementwise, kind):
    rng = np.random.default_rng(11)
    values = [torch.from_numpy(rng.standard_normal(2000)).to(KINDS[kind]) for _ in range(3)]
    codes = [v.view(torch.int16).numpy().view(np.uint16) for v in values]
    x, y, z = (v.double() for v in values)
    exact = x * y + z  # exact in float64 for these exponents
    got = elementwise(f"fma.rn.{kind} %y, %x0, %x1, %x2;", codes, np.uint16)
    check(kind, got, torch.from_numpy(exact.numpy()))
    check(kind, elementwise(f"fma.rn.relu.{kind} %y, %x0, %x1, %x2;", codes, np.uint16), exact.clamp(min=0))


@pytest.mark.parametrize("kind", KINDS)
def test_packed_pairs(elementwise, kind):
    (a, b), (x, y) = operands(kind, 2)
    pairs = [c.view(np.uint32) for c in (a, b)]
    got = elementwise(f"mul.rn.{kind}x2 %y, %x0, %x1;", pairs, np.uint32).view(np.uint16)
    check(kind, got, x.float() * y.float())
    got = elementwise(f"neg.{kind}x2 %y, %x0;", pairs[:1], np.uint32).view(np.uint16)
    check(kind, got, -x)


@pytest.mark.parametrize("kind", KINDS)
def test_min_max(elementwise, kind):
    (a, b), (x, y) = operands(kind, 2)
    check(kind, elementwise(f"max.{kind} %y, %x0, %x1;", [a, b], np.uint16), torch.fmax(x, y))
    check(kind, elementwise(f"min.NaN.{kind} %y, %x0, %x1;", [a, b], np.uint16), torch.minimum(x, y))


def test_saturation_and_flush(elementwise):
    a = np.array([2.0, -1.0, 0.25, np.nan, 1e-7], np.float16).view(np.uint16)
    one = np.ones(5, np.float16).view(np.uint16)
    got = elementwise("mul.sat.f16 %y, %x0, %x1;", [a, one], np.uint16).view(np.float16)
    assert got.tolist() == [1.0, 0.0, 0.25, 0.0, float(np.float16(1e-7))]
    assert elementwise("mul.ftz.f16 %y, %x0, %x1;", [a, one], np.uint16)[4] == 0


def test_functions(elementwise):
    x = np.linspace(-8, 8, 500).astype(np.float16)
    got = elementwise("ex2.approx.f16 %y, %x0;", [x.view(np.uint16)], np.uint16).view(np.float16)
    assert np.allclose(got.astype(np.float64), np.exp2(x.astype(np.float64)), rtol=2.0**-10)
    got = elementwise("tanh.approx.f16 %y, %x0;", [x.view(np.uint16)], np.uint16).view(np.float16)
    assert np.allclose(got.astype(np.float64), np.tanh(x.astype(np.float64)), rtol=2.0**-10)


@pytest.mark.parametrize(("kind", "dtype"), [("f16", torch.float16), ("bf16", torch.bfloat16)])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_fma_takes_elements_outside_a_tensor_as_zero(elementwise, kind, dtype, relu):
    """PTX ISA, fma.oob: 0 where a factor is the NaN that a tensor map fills in, otherwise fma."""
    rng = np.random.default_rng(10)
    numbers = [torch.from_numpy(rng.integers(-8, 9, 256) / 4).to(dtype) for _ in range(3)]
    codes = [x.view(torch.int16).numpy().view(np.uint16).copy() for x in numbers]
    codes[0][::5] = 0x7FFF
    codes[1][::7] = 0x7FFF
    outside = (codes[0] == 0x7FFF) | (codes[1] == 0x7FFF)
    exact = numbers[0].double() * numbers[1].double() + numbers[2].double()
    exact = exact.clamp(min=0) if relu else exact
    want = np.where(outside, 0.0, exact.to(dtype).double().numpy())
    scalar = elementwise(f"fma.rn.oob{relu}.{kind} %y, %x0, %x1, %x2;", codes, np.uint16)
    pairs = elementwise(f"fma.rn.oob{relu}.{kind}x2 %y, %x0, %x1, %x2;", [c.view(np.uint32) for c in codes], np.uint32)
    for found in (scalar, pairs.view(np.uint16)):
        values = torch.from_numpy(found.view(np.int16).copy()).view(dtype).double().numpy()
        assert np.array_equal(values, want)
        assert not found[outside].any()
