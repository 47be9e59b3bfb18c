"""Making tensors, and judging results and gradients beside float64 and torch's own, for the tests of operators."""

import torch

import tilewright as tw

TARGETS = ("sm_80", "sm_90a")


def tensor(*shape, dtype=torch.float16, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def outputs_and_gradients(call, inputs, dtype=None):
    """All outputs and the gradients of all floating inputs, for fixed output gradients; ``dtype`` widens the inputs."""
    leaves = [
        t.detach().to(dtype or t.dtype).requires_grad_() if torch.is_tensor(t) and t.is_floating_point() else t
        for t in inputs
    ]
    results = call(*leaves)
    results = [r for r in (results if isinstance(results, tuple) else (results,)) if r.requires_grad]
    own = next(t.dtype for t in inputs if torch.is_tensor(t) and t.is_floating_point())
    grads = [tensor(*r.shape, dtype=own, seed=7 + i).to(r.dtype) for i, r in enumerate(results)]
    torch.autograd.backward(results, grads)
    found = [t.grad for t in leaves if torch.is_tensor(t) and t.is_floating_point()]
    return [r.detach() for r in results], found


def assert_close(found, exact, own, units=2):
    """At most twice torch's error, or two roundings of the largest value."""
    assert found.shape == exact.shape
    error, torch_error = (float((t.double() - exact).abs().max()) if t.numel() else 0.0 for t in (found, own))
    floor = units * torch.finfo(found.dtype).eps * max(1.0, float(exact.abs().max()) if exact.numel() else 0.0)
    assert error <= floor or error <= 2 * torch_error, (error, torch_error, floor)


def assert_matches(ours, definition, inputs, target=None):
    """Results and gradients of ``ours`` beside those of ``definition`` in float64 and in the inputs' own types."""
    exact, own = outputs_and_gradients(definition, inputs, torch.float64), outputs_and_gradients(definition, inputs)
    with tw.use(target=target):
        found = outputs_and_gradients(ours, inputs)
    for one, wide, theirs in zip(found[0] + found[1], exact[0] + exact[1], own[0] + own[1], strict=True):
        assert one.dtype == theirs.dtype or one.dtype == torch.float32
        assert_close(one, wide, theirs)


def assert_nothing_found(function, *args):
    """No fault and no dependence on the order, in every mode and on both targets."""
    for target in TARGETS:
        report = tw.check(function, *args, target=target)
        assert report.ok, f"{target}: {report}"


def kernels_added(calls):
    """How many kernels the calls compile."""
    before = tw.stats()["kernels"]
    for call in calls:
        call()
    return tw.stats()["kernels"] - before
