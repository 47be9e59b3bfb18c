"""The verdict: twice torch's own error, both against float64."""

from __future__ import annotations

import math

import pytest
import torch

from tilewright.cli.compare import compare, largest_error, own_result, widened


def test_errors_are_absolute_maxima() -> None:
    exact = torch.tensor([1.0, 2.0, -4.0], dtype=torch.float64)
    assert largest_error(torch.tensor([1.0, 2.5, -4.25]), exact) == 0.5


def test_the_same_infinity_is_no_error_and_a_nan_is_infinite() -> None:
    exact = torch.tensor([math.inf, math.nan, 1.0], dtype=torch.float64)
    assert largest_error(torch.tensor([math.inf, math.nan, 1.0]), exact) == 0
    assert largest_error(torch.tensor([math.inf, math.nan, math.nan]), exact) == math.inf
    assert largest_error(torch.tensor([-math.inf, math.nan, 1.0]), exact) == math.inf


def test_another_shape_is_infinitely_wrong() -> None:
    assert largest_error(torch.zeros(3), torch.zeros(4, dtype=torch.float64)) == math.inf


@pytest.mark.parametrize(("off", "within"), [(0.0, True), (0.2, True), (0.21, False), (math.nan, False)])
def test_twice_the_error_of_torch(off: float, within: bool) -> None:
    exact = torch.zeros(4, dtype=torch.float64)
    own = torch.tensor([0.0, 0.1, 0.0, 0.0], dtype=torch.float64)
    result = compare([torch.full((4,), off, dtype=torch.float64)], [exact], [own])
    assert result.tolerance == pytest.approx(0.2)
    assert result.within is within


def test_one_unit_in_the_last_place_is_always_allowed() -> None:
    exact = torch.tensor([4.0], dtype=torch.float64)
    result = compare([torch.tensor([4.0 + 4 * 2**-10], dtype=torch.float16)], [exact], [exact])
    assert result.error == 4 * 2**-10
    assert result.within


def test_whole_numbers_must_agree() -> None:
    exact = torch.tensor([4])
    assert compare([torch.tensor([4], dtype=torch.int32)], [exact], [exact]).within
    assert not compare([torch.tensor([5], dtype=torch.int32)], [exact], [exact]).within


def test_the_worst_output_decides() -> None:
    good, exact = torch.ones(2), torch.ones(2, dtype=torch.float64)
    assert not compare([good, good + 1], [exact, exact], [good, good]).within
    assert not compare([good + 1, good], [exact, exact], [good, good]).within


def test_empty_outputs_have_no_error() -> None:
    empty = torch.zeros(0, 4)
    assert compare([empty], [empty.double()], [empty]).within


def test_widened_keeps_whole_numbers_whole() -> None:
    assert widened(torch.zeros(1, dtype=torch.bfloat16)).dtype == torch.float64
    assert widened(torch.zeros(1, dtype=torch.int8)).dtype == torch.int64


def test_what_torch_cannot_do_in_a_dtype_is_taken_in_float32() -> None:
    def only_wide(x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float8_e4m3fn:
            raise RuntimeError("not for float8")
        return x + x

    (result,) = own_result(only_wide, [torch.ones(2).to(torch.float8_e4m3fn)])
    assert result.dtype == torch.float32
    assert torch.equal(result, torch.full((2,), 2.0))
