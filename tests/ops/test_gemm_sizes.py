"""Sizes of any value, empty ones, batches, views with pitches and odd offsets."""

import pytest
import torch
from gemm_cases import check, matrix

import tilewright as tw
from tilewright.ops import gemm

ODD = [(1, 1, 1), (1, 256, 4096), (127, 255, 63), (33, 7, 1000), (1, 1, 40), (1, 16, 1), (128, 1, 1), (65, 64, 129)]
BOTH = ["sm_80", "sm_90a"]


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize(("m", "n", "k"), ODD)
def test_odd_sizes(target, m, n, k):
    check(target, matrix(m, k), matrix(k, n, seed=1))


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize(("m", "n", "k"), [(33, 7, 50), (1, 1, 1), (64, 127, 20)])
def test_odd_sizes_in_full_precision(target, m, n, k):
    check(target, matrix(m, k, dtype=torch.float32), matrix(k, n, dtype=torch.float32, seed=1))


@pytest.mark.parametrize(("m", "n", "k"), [(0, 16, 8), (16, 0, 8), (0, 0, 0)])
def test_empty_results(m, n, k):
    launches = tw.stats()["launches"]
    assert gemm(matrix(m, k), matrix(k, n)).shape == (m, n)
    assert tw.stats()["launches"] == launches


def test_no_columns_to_sum_gives_zeros_through_the_epilogue():
    launches = tw.stats()["launches"]
    assert torch.equal(gemm(matrix(3, 0), matrix(0, 5)), torch.zeros(3, 5, dtype=torch.float16))
    bias = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float16)
    assert torch.equal(gemm(matrix(2, 0), matrix(0, 3), bias, "relu"), bias.relu().expand(2, 3))
    assert tw.stats()["launches"] == launches


@pytest.mark.parametrize("target", BOTH)
def test_batches(target):
    a, b = matrix(3, 40, 48), matrix(3, 48, 32, seed=1)
    check(target, a, b)
    check(target, a, b[:1])  # B broadcast
    check(target, a[1], b)  # A broadcast, rank 2 against 3
    check(target, a, b[0])  # B of rank 2: the batch folds into rows


def test_batches_of_two_dimensions_broadcast_as_torch_does():
    a, b = matrix(2, 1, 16, 32), matrix(3, 32, 24, seed=1)
    assert check("sm_90a", a, b).shape == (2, 3, 16, 24)
    assert check("sm_90a", a.expand(2, 3, 16, 32), b.expand(2, 3, 32, 24)).shape == (2, 3, 16, 24)


def test_heads_as_strided_batches():
    packed = matrix(2, 24, 4, 32)  # (batch, sequence, head, dim), read as (batch, head, sequence, dim)
    heads = packed.transpose(1, 2)
    check("sm_90a", heads, heads.mT)


@pytest.mark.parametrize("target", BOTH)
def test_row_pitch(target):
    a, b = matrix(40, 96)[:, 8:72], matrix(64, 80, seed=1)[:, 16:48]
    check(target, a, b)


@pytest.mark.parametrize("target", BOTH)
def test_views_two_bytes_off(target):
    a = matrix(1, 40 * 64 + 1)[0, 1:].view(40, 64)
    b = matrix(64, 41, seed=1)[:, 1:]
    assert a.data_ptr() % 16 == 2
    check(target, a, b)


def test_a_pitch_that_only_some_widths_divide():
    check("sm_80", matrix(40, 68)[:, :64], matrix(64, 36, seed=1))  # rows 8-byte aligned
    check("sm_80", matrix(40, 66)[:, :64], matrix(64, 34, seed=1))  # rows 4-byte aligned


def test_columns_without_unit_stride_are_copied():
    check("sm_90a", matrix(32, 128)[:, ::2], matrix(64, 32, seed=1))
    check("sm_90a", matrix(1, 64).expand(32, 64), matrix(64, 32, seed=1))


def test_a_bias_of_any_stride_and_offset():
    a, b = matrix(32, 32), matrix(32, 40, seed=1)
    wide = matrix(1, 96, seed=2)[0]
    check("sm_80", a, b, wide[1:41], "relu")
    check("sm_80", a, b, wide[:80:2], "relu")


def test_the_result_of_a_row_times_a_wide_matrix_in_both_orders():
    row, wide = matrix(1, 512), matrix(512, 264, seed=1)
    check("sm_90a", row, wide)
    check("sm_90a", wide.mT, row.mT)
