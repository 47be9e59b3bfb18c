"""Special values, precision, and determinism."""

import math

import pytest
import torch
from gemm_cases import check, matrix, precision

import tilewright as tw
from tilewright.ops import gemm


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("activation", [None, "relu"])
def test_nan_and_infinity_spread_as_in_torch(target, dtype, activation):
    a, b = matrix(32, 32, dtype=dtype), torch.eye(32, dtype=dtype) + 1
    a[3, 5], a[7, 0], a[9, 9] = math.nan, math.inf, -math.inf
    with tw.use(target=target):
        result = gemm(a, b, None, activation)
    expected = a.double() @ b.double()
    expected = expected if activation is None else expected.relu()
    assert torch.equal(result.isnan(), expected.isnan())
    assert torch.equal(result.isposinf(), expected.isposinf())
    assert torch.equal(result.isneginf(), expected.isneginf())


def test_values_outside_the_matrix_never_enter():
    a, b = torch.full((80, 96), math.nan, dtype=torch.float16), torch.full((80, 96), math.inf, dtype=torch.float16)
    a[8:48, 16:56], b[8:48, 16:40] = 1, 1
    for target in ("sm_80", "sm_90a"):
        with tw.use(target=target):
            assert (gemm(a[8:48, 16:56], b[8:48, 16:40]) == 40).all()


def test_float32_is_summed_in_full_precision():
    a, b = matrix(32, 512, dtype=torch.float32), matrix(512, 32, dtype=torch.float32, seed=1)
    with tw.use(target="sm_90a"):
        result = gemm(a, b)
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    # 512 roundings in a row walk at random: far from their bound of 512, and a thousandth of one tf32 product's error
    assert ((result - exact).abs() / size).max() < 512**0.5 * 2.0**-24


def test_tf32_is_used_when_torch_allows_it():
    a = torch.full((16, 32), 1 + 2.0**-12)  # tf32 keeps ten bits, so this reads as one
    with tw.use(target="sm_80"):
        with precision("tf32"):
            assert (gemm(a, a.mT) == 32).all()
        with precision("ieee"):
            assert torch.allclose(gemm(a, a.mT).double(), a.double() @ a.double().mT, rtol=1e-6)


def test_int8_accumulates_exactly_at_the_limits():
    a = torch.full((16, 4096), -128, dtype=torch.int8)
    assert (check("sm_90a", a, a.mT) == 4096 * 16384).all()


def test_8_bit_floats_keep_nan_and_infinity():
    a = torch.ones(16, 32).to(torch.float8_e5m2)
    a[2, 3] = math.inf
    a[4, 5] = math.nan
    with tw.use(target="sm_90a"):
        result = gemm(a, torch.ones(16, 32).to(torch.float8_e5m2).mT, None, None, torch.float32)
    assert result[2].isposinf().all()
    assert result[4].isnan().all()
    assert (result[0] == 32).all()


def test_two_runs_give_the_same_bits():
    a, b = matrix(96, 200), matrix(200, 72, seed=1)
    assert torch.equal(check("sm_90a", a, b), check("sm_90a", a, b))
