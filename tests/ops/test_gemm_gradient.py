"""Gradients against float64 autograd, through views, batches and activations, once and twice."""

import pytest
import torch
from gemm_cases import matrix
from torch.nn import functional

import tilewright as tw
from tilewright.ops import gemm
from tilewright.ops.errors import OperandTypeError

ACTIVATIONS = {None: lambda x: x, "relu": torch.relu, "gelu": functional.gelu, "silu": functional.silu}


def leaves(*tensors):
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def exact(a, b, bias, activation, weight):
    a, b, bias = leaves(a.double(), b.double(), bias.double())
    (ACTIVATIONS[activation](a @ b + bias) * weight.double()).sum().backward()
    return a.grad, b.grad, bias.grad


def close(ours, expected, epsilon):
    scale = expected.abs().max()
    return (ours.double() - expected).abs().max() <= epsilon * scale


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_gradients_match_float64(activation, dtype):
    a, b, bias = leaves(
        matrix(24, 40, dtype=dtype), matrix(40, 32, dtype=dtype, seed=1), matrix(32, 1, dtype=dtype)[:, 0]
    )
    weight = matrix(24, 32, dtype=dtype, seed=2)
    (gemm(a, b, bias, activation) * weight).sum().backward()
    epsilon = 4e-3 if dtype == torch.float16 else 2e-6
    for ours, expected in zip((a.grad, b.grad, bias.grad), exact(a, b, bias, activation, weight), strict=True):
        assert close(ours, expected, epsilon)


@pytest.mark.parametrize(
    ("shape_a", "shape_b"),
    [((3, 16, 24), (24, 8)), ((3, 16, 24), (3, 24, 8)), ((16, 24), (3, 24, 8)), ((2, 1, 8, 16), (3, 16, 8))],
)
def test_gradients_of_batches_sum_over_what_was_broadcast(shape_a, shape_b):
    a, b = leaves(matrix(*shape_a, dtype=torch.float32), matrix(*shape_b, dtype=torch.float32, seed=1))
    gemm(a, b).square().sum().backward()
    wide_a, wide_b = leaves(a.double(), b.double())
    (wide_a @ wide_b).square().sum().backward()
    assert a.grad.shape == a.shape
    assert close(a.grad, wide_a.grad, 2e-6)
    assert close(b.grad, wide_b.grad, 2e-6)


def test_gradient_of_transposed_operands():
    base_a, base_b = leaves(matrix(24, 16), matrix(32, 24, seed=1))
    gemm(base_a.mT, base_b.mT).sum().backward()
    assert close(base_a.grad, (base_b.double().sum(0)[:, None]).expand(24, 16), 4e-3)
    assert close(base_b.grad, (base_a.double().sum(1)[None, :]).expand(32, 24), 4e-3)


def test_only_what_is_asked_for_is_computed():
    a, b = matrix(16, 16), matrix(16, 16, seed=1).requires_grad_()
    launches = tw.stats()["launches"]
    gemm(a, b).sum().backward()
    assert tw.stats()["launches"] - launches == 2


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_double_backward(activation):
    a, b = leaves(matrix(8, 16, dtype=torch.float32), matrix(16, 8, dtype=torch.float32, seed=1))

    def penalty(left, right, product):
        (grad,) = torch.autograd.grad(product(left, right).square().sum(), left, create_graph=True)
        grad.square().sum().backward()
        return right.grad

    ours = penalty(a, b, lambda x, y: gemm(x, y, None, activation))
    wide = penalty(*leaves(a.double(), b.double()), lambda x, y: ACTIVATIONS[activation](x @ y))
    assert close(ours, wide, 1e-5)


def test_8_bit_operands_have_no_gradient():
    a = torch.ones(16, 16).to(torch.float8_e4m3fn).requires_grad_()
    with pytest.raises(OperandTypeError, match="float8_e4m3fn, for which matmul has no gradient"):
        gemm(a, a.detach())


@pytest.mark.parametrize(("m", "n", "k"), [(16, 24, 0), (16, 0, 8), (0, 24, 8)])
def test_gradients_of_empty_products(m, n, k):
    a, b = leaves(torch.zeros(2, m, k, dtype=torch.float16), torch.zeros(k, n, dtype=torch.float16))
    gemm(a, b).sum().backward()
    assert (a.grad.shape, b.grad.shape) == (a.shape, b.shape)
    assert not a.grad.any()
    assert not b.grad.any()
