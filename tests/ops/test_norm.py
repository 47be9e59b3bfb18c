"""RMSNorm and LayerNorm against torch: values, gradients, layouts, the torch operator, and refusals."""

import pytest
import torch
from torch.nn import functional

import tilewright as tw
from tilewright.ops import OPERATORS, layer_norm, rms_norm

EPS = 1e-5


def tensor(*shape, dtype=torch.float16, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def arguments(kind, shape, dtype, residual=False, weight_dtype=None):
    """x, weight, bias (None for rms) and residual (None without)."""
    n, own = shape[-1], weight_dtype or dtype
    bias = tensor(n, dtype=own, seed=2) if kind == "layer" else None
    other = tensor(*shape, dtype=dtype, seed=3) if residual else None
    return [tensor(*shape, dtype=dtype), tensor(n, dtype=own, seed=1), bias, other]


def ours(kind, x, weight, bias, residual):
    return rms_norm(x, weight, EPS, residual) if kind == "rms" else layer_norm(x, weight, bias, EPS, residual)


def definition(kind, x, weight, bias, residual, rounded=None):
    """What torch makes of the sum of x and the residual; ``rounded`` is the dtype the sum is rounded to."""
    total = x if residual is None else x + residual
    if rounded is not None and residual is not None:
        total = total + (total.detach().to(rounded).to(total.dtype) - total.detach())
    shape = x.shape[-1:]
    y = (
        functional.rms_norm(total, shape, weight, EPS)
        if kind == "rms"
        else functional.layer_norm(total, shape, weight, bias, EPS)
    )
    return y if residual is None else (y, total)


def outputs_and_gradients(call, inputs, dtype):
    """All outputs and the gradients of all inputs, for fixed output gradients."""
    leaves = [None if t is None else t.detach().to(dtype or t.dtype).requires_grad_() for t in inputs]
    results = call(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    grads = [tensor(*r.shape, dtype=inputs[0].dtype, seed=7 + i).to(r.dtype) for i, r in enumerate(results)]
    torch.autograd.backward(results, grads)
    return [r.detach() for r in results], [t.grad for t in leaves if t is not None]


def assert_close(found, exact, own):
    """At most twice torch's error, or two roundings of the largest value."""
    assert (found.shape, found.dtype) == (own.shape, own.dtype)
    error, torch_error = (float((t.double() - exact).abs().max()) for t in (found, own))
    floor = 2 * torch.finfo(found.dtype).eps * max(1.0, float(exact.abs().max()))
    assert error <= max(2 * torch_error, floor), (error, torch_error, floor)


CASES = [
    ("rms", (5, 1000), torch.float16, False, None),
    ("rms", (2, 3, 64), torch.bfloat16, True, torch.float32),
    ("layer", (3, 77), torch.float32, False, None),
    ("layer", (6, 1024), torch.float16, True, None),
]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("kind", "shape", "dtype", "residual", "weight_dtype"), CASES)
def test_values_and_gradients(kind, shape, dtype, residual, weight_dtype, target):
    inputs = arguments(kind, shape, dtype, residual, weight_dtype)
    exact = outputs_and_gradients(lambda x, w, b, r: definition(kind, x, w, b, r, rounded=dtype), inputs, torch.float64)
    own = outputs_and_gradients(
        lambda x, w, b, r: definition(kind, x, w.to(dtype), None if b is None else b.to(dtype), r), inputs, None
    )
    with tw.use(target=target):
        found = outputs_and_gradients(lambda x, w, b, r: ours(kind, x, w, b, r), inputs, None)
    for one, wide, theirs in zip(found[0] + found[1], exact[0] + exact[1], own[0] + own[1], strict=True):
        assert_close(one, wide, theirs)


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_nothing_is_found_in_any_order(kind):
    x, weight, bias, residual = arguments(kind, (3, 1000), torch.float16, residual=True)
    report = tw.check(lambda a, r: ours(kind, a, weight, bias, r), x, residual, target="sm_80")
    assert report.ok, str(report)


def test_empty_single_and_strided_rows():
    weight = tensor(64)
    assert rms_norm(tensor(0, 64), weight).shape == (0, 64)
    assert rms_norm(tensor(4, 0), tensor(0)).shape == (4, 0)
    wide = tensor(6, 128)
    for view in (wide[:, :64], wide[::2, 64:], wide[:1, :64], wide.view(2, 3, 128)[:, 1, :64]):
        assert torch.equal(rms_norm(view, weight), rms_norm(view.contiguous(), weight))
    odd = tensor(5, 67)[:, 3:]  # rows start at odd addresses
    assert torch.equal(rms_norm(odd, weight), rms_norm(odd.contiguous(), weight))


def test_nan_and_infinity_stay_in_their_row():
    x = tensor(4, 64, dtype=torch.float32)
    x[1, 5], x[2, 7] = float("nan"), float("inf")
    y = rms_norm(x, None, EPS)
    expected = functional.rms_norm(x, (64,), None, EPS)
    assert torch.equal(y.isnan(), expected.isnan())
    assert torch.allclose(y[[0, 3]], expected[[0, 3]], rtol=1e-6, atol=1e-7)


def test_empty_gradients_are_zero():
    weight = tensor(64).requires_grad_()
    rms_norm(tensor(0, 64).requires_grad_(), weight).sum().backward()
    assert torch.equal(weight.grad, torch.zeros(64, dtype=torch.float16))


def test_many_sizes_share_kernels():
    with tw.use(target="sm_80"):
        rms_norm(tensor(3, 1000), tensor(1000))
        before = tw.stats()["kernels"]
        for m, n in ((1, 1000), (70, 968), (2, 1024), (5, 904)):
            rms_norm(tensor(m, n), tensor(n))
        assert tw.stats()["kernels"] == before


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_opcheck(kind):
    x, weight, bias, residual = arguments(kind, (3, 1000), torch.float16, residual=True)
    leaves = [t.requires_grad_() for t in (x, weight, bias, residual) if t is not None]
    op = getattr(torch.ops.tilewright, f"{kind}_norm").default
    torch.library.opcheck(op, (*leaves[:-1], EPS, leaves[-1]))


def test_torch_compile_keeps_one_node_and_vmap_loops():
    nodes = []

    def backend(graph, inputs):
        nodes.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph

    x, weight = tensor(3, 1000), tensor(1000)
    compiled = torch.compile(lambda a, w: rms_norm(a, w, EPS).relu(), backend=backend, fullgraph=True)
    assert torch.equal(compiled(x, weight), rms_norm(x, weight, EPS).relu())
    assert torch.ops.tilewright.rms_norm.default in nodes
    batch = torch.stack([x, -x])
    assert torch.equal(torch.vmap(lambda a: rms_norm(a, weight, EPS))(batch), rms_norm(batch, weight, EPS))


def test_a_second_derivative_is_refused():
    x, weight = tensor(3, 64, dtype=torch.float32).requires_grad_(), tensor(64, dtype=torch.float32)
    with pytest.raises(tw.errors.TilewrightError, match="operator norm_backward has no backward"):
        torch.autograd.grad(rms_norm(x, weight).sum(), x, create_graph=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rms_norm(tensor(3, 8, dtype=torch.float64), tensor(8)), "x has dtype float64"),
        (lambda: rms_norm(tensor(3, 8), tensor(9)), r"weight has shape \(9,\), the last dimension of x is 8"),
        (lambda: rms_norm(tensor(3, 8), tensor(8), residual=tensor(8)), "residual does not have the shape of x"),
        (
            lambda: rms_norm(tensor(3, 8), None, residual=tensor(3, 8, dtype=torch.float32)),
            "residual is float32, x is float16",
        ),
        (lambda: rms_norm(torch.tensor(1.0), None), "x has rank 0"),
        (lambda: rms_norm(torch.empty(1, 40000), None), "x has 40000 columns, at most 32768"),
        (lambda: rms_norm(tensor(3, 8), None, eps=-1.0), "eps = -1.0 is below zero"),
        (lambda: layer_norm(tensor(3, 8), tensor(8), tensor(3)), r"bias has shape \(3,\)"),
        (lambda: rms_norm(tensor(3, 8), tensor(8).to("meta")), "x is on cpu, weight on meta"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(tw.errors.TilewrightError, match=message):
        call()


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_the_samples_of_the_record_pass(name):
    record = OPERATORS[name]
    for sample in record.samples[:2]:
        values = record.values(sample)
        args, keywords = record.inputs(values, torch.Generator().manual_seed(0))
        compared = record.compare(record.function(*args, **keywords), *args, **keywords)
        assert compared.ok, (sample, compared)
