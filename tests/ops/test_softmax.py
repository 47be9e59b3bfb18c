"""Softmax against torch: values, gradients, long rows, layouts, and refusals."""

import pytest
import torch
from judging import TARGETS, assert_close, assert_matches, assert_nothing_found, kernels_added, tensor

import tilewright as tw
from tilewright.ops import softmax


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "dtype", "dim"),
    [
        ((5, 1000), torch.float16, -1),
        ((2, 3, 77), torch.bfloat16, -1),
        ((6, 5, 8), torch.float32, 1),
        ((2, 33000), torch.float32, 1),
    ],
)
def test_values_and_gradients(shape, dtype, dim, target):
    inputs = [3 * tensor(*shape, dtype=dtype)]
    assert_matches(lambda x: softmax(x, dim), lambda x: torch.softmax(x, dim), inputs, target)


def test_a_hundred_thousand_columns():
    x = tensor(2, 100_003, dtype=torch.bfloat16)
    assert_close(softmax(x), torch.softmax(x.double(), -1), torch.softmax(x, -1))


@pytest.mark.parametrize("columns", [96, 33000])
def test_infinities_and_nan_stay_in_their_row(columns):
    x = tensor(6, columns, dtype=torch.float32)
    x[0] = -torch.inf
    x[1, : columns - 3] = -torch.inf
    x[2, 5], x[3, 7], x[4] = torch.nan, torch.inf, 3e38
    y, expected = softmax(x), torch.softmax(x, -1)
    assert torch.equal(y.isnan(), expected.isnan())
    assert torch.allclose(y, expected, rtol=2e-6, atol=1e-9, equal_nan=True)


def test_empty_single_and_strided_rows():
    assert softmax(tensor(0, 64)).shape == (0, 64)
    assert softmax(tensor(4, 0)).shape == (4, 0)
    assert torch.equal(softmax(tensor(4, 1)), torch.ones(4, 1, dtype=torch.float16))
    wide = tensor(6, 134)
    for view in (wide[:, :64], wide[::2, 3:67], wide[:1], wide.mT):
        assert torch.equal(softmax(view), softmax(view.contiguous()))


def test_nothing_is_found_in_any_order():
    assert_nothing_found(softmax, tensor(3, 130))
    assert_nothing_found(softmax, tensor(1, 33000))


def test_many_sizes_share_kernels():
    with tw.use(target="sm_80"):
        calls = [lambda n=n: softmax(tensor(3, n)) for n in range(1000, 1512, 8)]
        assert kernels_added(calls) <= 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: softmax(tensor(3, dtype=torch.float64)), "softmax: x has dtype float64"),
        (lambda: softmax(torch.tensor(1.0)), "softmax: x has rank 0"),
        (lambda: softmax(tensor(3, 4), 2), "softmax: dim = 2, x has rank 2"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(tw.errors.TilewrightError, match=message):
        call()
