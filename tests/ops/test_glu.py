"""SwiGLU and GeGLU against torch: values, gradients, layouts, and refusals."""

from functools import partial

import pytest
import torch
from judging import TARGETS, assert_matches, assert_nothing_found, kernels_added, tensor
from torch.nn import functional

import tilewright as tw
from tilewright.ops import geglu, swiglu

KINDS = {
    "swiglu": (swiglu, functional.silu),
    "geglu": (geglu, functional.gelu),
    "geglu_tanh": (partial(geglu, approximate="tanh"), partial(functional.gelu, approximate="tanh")),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("kind", "shape", "dtype"),
    [
        ("swiglu", (3, 500), torch.float16),
        ("swiglu", (2, 3, 77), torch.bfloat16),
        ("swiglu", (5, 64), torch.float32),
        ("geglu", (3, 500), torch.bfloat16),
        ("geglu_tanh", (5, 64), torch.float32),
    ],
)
def test_values_and_gradients(kind, shape, dtype, target):
    ours, activation = KINDS[kind]
    inputs = [3 * tensor(*shape, dtype=dtype), tensor(*shape, dtype=dtype, seed=1)]
    assert_matches(ours, lambda gate, up: activation(gate) * up, inputs, target)


def test_halves_of_one_projection_are_read_where_they_lie():
    both = tensor(5, 2, 68).requires_grad_()
    gate, up = both.flatten(1).chunk(2, -1)
    y = swiglu(gate, up)
    assert torch.equal(y, swiglu(gate.contiguous(), up.contiguous()))
    y.sum().backward()
    wide = both.detach().double().requires_grad_()
    gate, up = wide.flatten(1).chunk(2, -1)
    (functional.silu(gate) * up).sum().backward()
    assert torch.allclose(both.grad.double(), wide.grad, atol=2e-3)


def test_empty_huge_infinite_and_nan():
    assert swiglu(tensor(0, 64), tensor(0, 64)).shape == (0, 64)
    assert geglu(tensor(3, 0), tensor(3, 0)).shape == (3, 0)
    gate = torch.tensor([[65504.0, -65504.0, torch.nan, 0.0, -80.0, 88.0]])
    for ours, activation in KINDS.values():
        found = ours(gate, torch.ones_like(gate))
        assert torch.allclose(found, activation(gate), rtol=1e-6, atol=1e-6, equal_nan=True)
        assert ours(torch.full((1,), torch.inf), torch.ones(1)).item() == torch.inf
    assert swiglu(tensor(1, 1), tensor(1, 1)).shape == (1, 1)


@pytest.mark.parametrize("ours", [swiglu, partial(geglu, approximate="tanh")])
def test_nothing_is_found_in_any_order(ours):
    assert_nothing_found(ours, tensor(3, 70)[:, :65], tensor(3, 65))


def test_many_sizes_share_kernels():
    calls = [lambda n=n: swiglu(tensor(3, n), tensor(3, n)) for n in range(344, 856, 8)]
    assert kernels_added(calls) <= 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: swiglu(tensor(3), tensor(4)), "swiglu: up does not have the shape of gate"),
        (lambda: geglu(tensor(3), tensor(3, dtype=torch.float32)), "geglu: up is float32, gate is float16"),
        (lambda: swiglu(tensor(3).double(), tensor(3).double()), "swiglu: gate has dtype float64"),
        (lambda: geglu(tensor(3), tensor(3), "sigmoid"), "geglu: approximate = 'sigmoid'"),
        (lambda: swiglu(tensor(3), tensor(3).to("meta")), "gate is on cpu, up on meta"),
        (lambda: torch.ops.tilewright.glu(tensor(3), tensor(3), "relu"), "glu: unknown kind 'relu'"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(tw.errors.TilewrightError, match=message):
        call()
