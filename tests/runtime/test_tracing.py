"""A kernel call under a tracer is one opaque node or a clear error; it never vanishes."""

from __future__ import annotations

import gc

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from tilewright.lowering import KernelLaunch, LaunchPlan, PointerParameter
from tilewright.runtime import ArgumentError, GradientError, Kernel, TracingError, stats


class Doubling:
    """A device whose kernels write 2 x into every other tensor."""

    def prepare(self, artifact, signature, index):
        def launch(x, *rest):
            for tensor in rest:
                if isinstance(tensor, torch.Tensor):
                    tensor.copy_(x * 2)

        return launch


def kernel_with(tools, out_idx, *written):
    launch = KernelLaunch("k", tools.e(1, 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], (PointerParameter("x"),))
    outputs = [tools.tensor(name, "n", dtype="float32", read=False, written=True) for name in written]
    plan = LaunchPlan("double", (tools.tensor("x", "n", dtype="float32"), *outputs), ("n",), (launch,))
    return Kernel(tools.artifact(plan), out_idx, device=Doubling())


@pytest.fixture
def pure(tools):
    return kernel_with(tools, -1, "y")


@pytest.fixture
def writing(tools):
    return kernel_with(tools, None, "y")


@pytest.fixture
def both(tools):
    return kernel_with(tools, -1, "y", "z")


def nodes(graph):
    return [
        node.target._schema.name
        for node in graph.graph.nodes
        if node.op == "call_function" and hasattr(node.target, "_schema")
    ]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx_sees_one_node(pure, mode):
    graph = make_fx(lambda x: pure(x) + 1, tracing_mode=mode)(torch.ones(6))
    assert nodes(graph) == ["tilewright::run_kernel", "aten::add"]
    assert torch.equal(graph(torch.arange(6.0)), torch.arange(6.0) * 2 + 1)


def test_make_fx_of_a_write(writing):
    def double(x, y):
        writing(x, y)
        return y

    graph = make_fx(double)(torch.ones(6), torch.zeros(6))
    assert nodes(graph) == ["tilewright::call_kernel"]
    assert torch.equal(graph(torch.ones(6), torch.zeros(6)), torch.full((6,), 2.0))


def test_torch_compile_of_a_result(pure):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: pure(x) + 1, fullgraph=True, backend="aot_eager")
    for size in (6, 8, 10):
        assert torch.equal(compiled(torch.arange(float(size))), torch.arange(float(size)) * 2 + 1)


def test_torch_compile_of_a_write(writing):
    torch._dynamo.reset()

    def double(x, y):
        before = y + 1
        writing(x, y)
        return before, y + 1

    before, after = torch.compile(double, fullgraph=True, backend="aot_eager")(torch.ones(6), torch.zeros(6))
    assert torch.equal(before, torch.ones(6))
    assert torch.equal(after, torch.full((6,), 3.0))


def test_torch_compile_of_result_and_write(both):
    torch._dynamo.reset()
    y = torch.zeros(6)
    z = torch.compile(lambda x, y: both(x, y) + 1, fullgraph=True, backend="aot_eager")(torch.ones(6), y)
    assert torch.equal(y, torch.full((6,), 2.0))
    assert torch.equal(z, torch.full((6,), 3.0))


def test_torch_compile_reports_a_wrong_argument(pure):
    torch._dynamo.reset()
    with pytest.raises(Exception, match="x is float64, double needs float32"):
        torch.compile(pure, fullgraph=True, backend="aot_eager")(torch.ones(6, dtype=torch.float64))


def test_export(pure):
    class Module(torch.nn.Module):
        def forward(self, x):
            return pure(x) + 1

    exported = torch.export.export(Module(), (torch.ones(6),))
    assert "tilewright.run_kernel" in str(exported.graph)
    assert torch.equal(exported.module()(torch.arange(6.0)), torch.arange(6.0) * 2 + 1)


def test_fake_tensors(pure, both):
    with FakeTensorMode():
        result = pure(torch.empty(6))
        assert (type(result).__name__, result.shape) == ("FakeTensor", (6,))
        assert both(torch.empty(6), torch.empty(6)).shape == (6,)
        with pytest.raises(ArgumentError, match="x has 2 dimensions, double needs 1"):
            pure(torch.empty(2, 3))


def test_a_dispatch_mode_sees_the_call(pure):
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    before = stats()["traced_calls"]
    with Log():
        result = pure(torch.ones(3))
    assert seen[-1] == "tilewright::run_kernel"
    assert torch.equal(result, torch.full((3,), 2.0))
    assert stats()["traced_calls"] == before + 1


def test_gradient_under_a_tracer(pure):
    with FakeTensorMode(), pytest.raises(GradientError, match="x requires a gradient"):
        pure(torch.empty(6, requires_grad=True))


def test_plain_subclass_runs(pure):
    class Mine(torch.Tensor):
        pass

    result = pure(torch.ones(4).as_subclass(Mine))
    assert type(result) is torch.Tensor
    assert torch.equal(result, torch.full((4,), 2.0))


def test_vmap_is_refused(pure):
    with pytest.raises(TracingError, match=r"x is a tensor of torch.vmap, and kernel double has no rule"):
        torch.vmap(pure)(torch.ones(3, 4))


def test_functorch_grad_is_refused(pure):
    with pytest.raises(TracingError, match=r"x is a tensor of torch.func.grad or jvp"):
        torch.func.grad(lambda x: pure(x).sum())(torch.ones(4))


def test_graph_outlives_the_kernel(tools):
    """A graph holds only the kernel's key, so the kernel is kept for it."""
    graph = make_fx(kernel_with(tools, -1, "y"))(torch.ones(3))
    assert torch.equal(graph(torch.ones(3)), torch.full((3,), 2.0))


def test_unknown_key():
    with pytest.raises(TracingError, match="calls kernel 0123, which this process has not made"):
        torch.ops.tilewright.run_kernel("0123", [torch.ones(1)], [])


def test_opaque_operators_pass_opcheck(pure, writing):
    x = torch.ones(6)
    pure(x)
    torch.library.opcheck(torch.ops.tilewright.run_kernel.default, (pure.key, [x], []))
    torch.library.opcheck(torch.ops.tilewright.call_kernel.default, (writing.key, [torch.zeros(6)], [x], []))


def test_a_kernel_is_traced_after_an_equal_one_died(tools):
    first = kernel_with(tools, -1, "y")
    second = kernel_with(tools, -1, "y")
    alike = Kernel(first.artifact, -1)
    again = Kernel(first.artifact, -1)
    assert alike.key == again.key
    del first, second, again
    gc.collect()
    alike = Kernel(alike.artifact, -1, device=Doubling())
    kept = Kernel(alike.artifact, -1)
    del alike
    gc.collect()
    graph = make_fx(kept, tracing_mode="fake")(torch.ones(6))
    assert "run_kernel" in str(graph.code)
