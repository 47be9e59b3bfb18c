"""Registered operators: dispatch, fake kernels, gradients, batching."""

from __future__ import annotations

import itertools

import pytest
import torch

from tilewright.runtime import GradientError, TracingError, errors, register_operator

_numbers = itertools.count()


def name():
    return f"test_operator_{next(_numbers)}"


def product(a, b, scale=1.0):
    """A stand-in for a kernel: autograd must not see into it."""
    return torch.from_numpy(a.detach().numpy() * b.detach().numpy() * scale)


SCHEMA = "(Tensor a, Tensor b, float scale=1.0) -> Tensor"


def fake(a, b, scale=1.0):
    return torch.empty_like(a)


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.scale = inputs[2]


def backward(ctx, grad):
    a, b = ctx.saved_tensors
    return grad * b * ctx.scale, grad * a * ctx.scale, None


@pytest.fixture
def plain():
    return register_operator(name(), SCHEMA, product, fake=fake)


@pytest.fixture
def differentiable():
    return register_operator(name(), SCHEMA, product, fake=fake, backward=backward, setup_context=setup_context)


@pytest.fixture
def pair():
    return torch.arange(6.0).view(2, 3), torch.full((2, 3), 3.0)


def test_values(plain, pair):
    a, b = pair
    assert torch.equal(plain(a, b), a * 3)
    assert torch.equal(plain(a, b, scale=2.0), a * 6)
    assert torch.equal(plain.op(a, b, 2.0), a * 6)
    assert plain.op is getattr(torch.ops.tilewright, plain.name).default


def test_gradient(differentiable, pair):
    a, b = (t.clone().requires_grad_() for t in pair)
    differentiable(a, b, 2.0).sum().backward()
    assert torch.equal(a.grad, torch.full((2, 3), 6.0))
    assert torch.equal(b.grad, torch.arange(6.0).view(2, 3) * 2)
    with torch.no_grad():
        assert not differentiable(a, b).requires_grad


def test_gradcheck(differentiable):
    a, b = (torch.rand(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda a, b: differentiable(a, b, 0.5), (a, b))


def test_no_gradient_is_an_error(plain, pair):
    a, b = pair
    with pytest.raises(GradientError, match=r"b requires a gradient, and operator test_operator_\d+ has no backward"):
        plain(a, b.clone().requires_grad_())
    with torch.no_grad():
        assert torch.equal(plain(a, b.clone().requires_grad_()), a * 3)


def test_opcheck(plain, differentiable, pair):
    torch.library.opcheck(plain.op, pair)
    torch.library.opcheck(differentiable.op, pair)
    torch.library.opcheck(differentiable.op, tuple(t.clone().requires_grad_() for t in pair))


def test_torch_compile(differentiable, pair):
    torch._dynamo.reset()
    a, b = pair
    compiled = torch.compile(lambda a, b: differentiable(a, b) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a, b), a * 3 + 1)
    a = a.clone().requires_grad_()
    compiled(a, b).sum().backward()
    assert torch.equal(a.grad, b)


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 1), (2, 0)])
def test_vmap_runs_once_for_each_element(plain, in_dims):
    generator = torch.Generator().manual_seed(0)
    values = [torch.rand((3, 3, 3) if dim is not None else (3, 3), generator=generator) for dim in in_dims]
    expected = torch.vmap(torch.mul, in_dims=in_dims)(*values)
    assert torch.equal(torch.vmap(plain, in_dims=in_dims)(*values), expected)


def test_vmap_rule_of_the_caller(pair):
    rules = []

    def rule(info, in_dims, a, b, scale=1.0):
        rules.append(in_dims)
        return a * b * scale, 0

    op = register_operator(name(), SCHEMA, product, fake=fake, vmap=rule)
    torch.vmap(op, in_dims=(0, 0))(*pair)
    assert rules[0][:2] == (0, 0)


def double_(x):
    x.numpy()[:] *= 2


@pytest.fixture
def in_place():
    return register_operator(name(), "(Tensor(x!) x) -> ()", double_, fake=lambda x: None)


def test_write_counts_for_autograd(in_place):
    x = torch.ones(3)
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * x).sum()
    in_place(x)
    assert torch.equal(x, torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_write_under_torch_compile(in_place):
    torch._dynamo.reset()

    def use(x):
        y = x.clone()
        in_place(y)
        return y + 1

    assert torch.equal(torch.compile(use, fullgraph=True, backend="aot_eager")(torch.ones(3)), torch.full((3,), 3.0))


def test_write_under_vmap(in_place):
    with pytest.raises(TracingError, match=r"operator test_operator_\d+ writes x and has no rule for torch.vmap"):
        torch.vmap(in_place)(torch.ones(3, 2))


def test_name_taken(plain):
    with pytest.raises(errors.OptionError, match="with the same name and overload name multiple times"):
        register_operator(plain.name, SCHEMA, product, fake=fake)


def test_bad_schema():
    with pytest.raises(errors.OptionError, match="torch refuses the schema"):
        register_operator(name(), "(Tenso a) -> Tensor", product, fake=fake)


def test_setup_context_alone():
    with pytest.raises(errors.OptionError, match="setup_context was given without backward"):
        register_operator(name(), SCHEMA, product, fake=fake, setup_context=setup_context)


def test_write_with_backward():
    with pytest.raises(errors.OptionError, match="writes x and has a backward"):
        register_operator(name(), "(Tensor(x!) x) -> ()", double_, fake=lambda x: None, backward=backward)
