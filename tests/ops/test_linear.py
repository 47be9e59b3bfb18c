"""The linear layer against torch: values, gradients, autocast, and refusals."""

import pytest
import torch
from judging import assert_matches, tensor
from torch.nn import functional

import tilewright as tw
from tilewright.ops import linear

ACTIVATIONS = {None: lambda z: z, "relu": torch.relu, "silu": functional.silu}


@pytest.mark.parametrize(
    ("shape", "n", "dtype", "activation", "target"),
    [
        ((2, 17, 24), 40, torch.float16, "silu", "sm_80"),
        ((9, 24), 8, torch.bfloat16, None, "sm_90a"),
        ((5, 7), 3, torch.float32, "relu", "sm_80"),
    ],
)
def test_values_and_gradients(shape, n, dtype, activation, target):
    inputs = [tensor(*shape, dtype=dtype), tensor(n, shape[-1], dtype=dtype, seed=1), tensor(n, dtype=dtype, seed=2)]

    def definition(x, w, b):
        return ACTIVATIONS[activation](functional.linear(x, w, b))

    assert_matches(lambda x, w, b: linear(x, w, b, activation), definition, inputs, target)


def test_one_vector_and_no_rows():
    x, w = tensor(24), tensor(8, 24, seed=1)
    assert torch.equal(linear(x, w), linear(x[None], w)[0])
    w.requires_grad_()
    linear(tensor(0, 24), w).sum().backward()
    assert torch.equal(w.grad, torch.zeros(8, 24, dtype=torch.float16))


def test_autocast_takes_its_dtype():
    x, w = tensor(9, 24, dtype=torch.float32), tensor(8, 24, dtype=torch.float32, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        found = linear(x, w)
        assert found.dtype == functional.linear(x, w).dtype == torch.bfloat16
    assert torch.equal(found, linear(x.bfloat16(), w.bfloat16()))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear(tensor(3, 4), tensor(4, 3)), r"linear: x is not \(..., K\) with w \(N, K\)"),
        (lambda: linear(tensor(3, 4), tensor(4)), r"linear: x is not \(..., K\) with w \(N, K\)"),
        (lambda: linear(tensor(3, 4).double(), tensor(3, 4).double()), "linear: x has dtype float64"),
        (lambda: linear(tensor(3, 4), tensor(3, 4), None, "tanh"), "unknown activation 'tanh'"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(tw.errors.TilewrightError, match=message):
        call()
