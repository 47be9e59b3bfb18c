"""Every training operator as a torch operator: opcheck, compile, export, vmap, autocast, second derivatives."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from judging import tensor

import tilewright as tw
from tilewright.ops import (
    OPERATORS,
    attention,
    cross_entropy,
    geglu,
    linear,
    linear_cross_entropy,
    linear_token_logprobs,
    rope,
    softmax,
    swiglu,
    token_logprobs,
)


@dataclass(frozen=True)
class Case:
    """A call: the public function of tensors alone, the torch operator with all its arguments, what it lacks."""

    call: Any
    tensors: tuple[Any, ...]
    op: str
    arguments: tuple[Any, ...]
    second: str | None  # the operator that refuses a second derivative


def leaf(*shape, dtype=torch.float16, seed=0):
    return tensor(*shape, dtype=dtype, seed=seed).requires_grad_()


TABLES = (tensor(5, 32, dtype=torch.float32), tensor(5, 32, dtype=torch.float32, seed=1))
TARGET = torch.tensor([3, 39, 0])
CASES = {
    "softmax": Case(softmax, (leaf(3, 40),), "softmax", (leaf(3, 40),), "softmax_backward"),
    "swiglu": Case(swiglu, (leaf(3, 40), leaf(3, 40)), "glu", (leaf(3, 40), leaf(3, 40), "silu"), "glu_backward"),
    "geglu": Case(geglu, (leaf(3, 40), leaf(3, 40)), "glu", (leaf(3, 40), leaf(3, 40), "gelu"), "glu_backward"),
    "attention": Case(
        attention,
        (leaf(1, 5, 2, 64), leaf(1, 6, 2, 64), leaf(1, 6, 2, 64)),
        "attention",
        (leaf(1, 5, 2, 64), leaf(1, 6, 2, 64), leaf(1, 6, 2, 64), None, 0.125, 0.0, -1, -1),
        "attention_backward",
    ),
    "rope": Case(
        lambda q, k: rope(q, k, *TABLES),
        (leaf(2, 3, 2, 64), leaf(2, 3, 1, 64)),
        "rope",
        (leaf(2, 3, 2, 64), leaf(2, 3, 1, 64), *TABLES),
        None,
    ),
    "linear": Case(linear, (leaf(9, 24), leaf(8, 24)), "linear", (leaf(9, 24), leaf(8, 24), leaf(8), "silu"), None),
    "cross_entropy": Case(
        lambda x: cross_entropy(x, TARGET),
        (leaf(3, 40),),
        "cross_entropy",
        (leaf(3, 40), TARGET),
        "cross_entropy_backward",
    ),
    "token_logprobs": Case(
        lambda x: token_logprobs(x, TARGET),
        (leaf(3, 40),),
        "token_logprobs",
        (leaf(3, 40), TARGET, 0.7),
        "token_logprobs_backward",
    ),
    "linear_cross_entropy": Case(
        lambda h, w: linear_cross_entropy(h, w, TARGET),
        (leaf(3, 24), leaf(40, 24)),
        "linear_cross_entropy",
        (leaf(3, 24), leaf(40, 24), TARGET),
        "linear_cross_entropy_backward",
    ),
    "linear_token_logprobs": Case(
        lambda h, w: linear_token_logprobs(h, w, TARGET),
        (leaf(3, 24), leaf(40, 24)),
        "linear_token_logprobs",
        (leaf(3, 24), leaf(40, 24), TARGET, 0.7),
        "linear_token_logprobs_backward",
    ),
}
every = pytest.mark.parametrize("name", CASES)


def first(result):
    return result[0] if isinstance(result, tuple) else result


def plain(name):
    return [t.detach() if torch.is_tensor(t) else t for t in CASES[name].tensors]


@every
def test_opcheck(name):
    case = CASES[name]
    torch.library.opcheck(getattr(torch.ops.tilewright, case.op).default, case.arguments)


@every
def test_compile_keeps_the_node_and_the_gradient(name):
    case, nodes = CASES[name], []

    def backend(graph, inputs):
        nodes.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph

    compiled = torch.compile(case.call, backend=backend, fullgraph=True)
    assert torch.equal(first(compiled(*plain(name))), first(case.call(*plain(name))))
    assert getattr(torch.ops.tilewright, case.op).default in nodes


def _unpacked(call, *tensors):
    return call(*tensors)


@every
def test_export_and_make_fx_hold_the_operator(name):
    from torch.fx.experimental.proxy_tensor import make_fx

    case = CASES[name]
    operator = getattr(torch.ops.tilewright, case.op).default

    class Module(torch.nn.Module):
        def forward(self, *tensors):
            return case.call(*tensors)

    exported = torch.export.export(Module(), tuple(plain(name)))
    assert operator in [node.target for node in exported.graph.nodes]
    graph = make_fx(partial(_unpacked, case.call), tracing_mode="real")(*plain(name))
    assert operator in [node.target for node in graph.graph.nodes]


@every
def test_vmap_runs_over_a_batch(name):
    case = CASES[name]
    batched, rest = plain(name)[0], plain(name)[1:]
    batch = torch.stack([batched, -batched])
    found = first(torch.vmap(lambda a: case.call(a, *rest))(batch))
    assert torch.equal(found, torch.stack([first(case.call(a, *rest)) for a in batch]))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.second])
def test_a_second_derivative_is_refused(name):
    case = CASES[name]
    with pytest.raises(tw.errors.TilewrightError, match=f"operator {case.second} has no backward"):
        torch.autograd.grad(first(case.call(*case.tensors)).sum(), case.tensors[0], create_graph=True)


@pytest.mark.parametrize("name", [name for name in CASES if name != "linear"])
def test_autocast_changes_nothing(name):
    case = CASES[name]
    with torch.autocast("cpu", torch.bfloat16):
        inside = first(case.call(*plain(name)))
    outside = first(case.call(*plain(name)))
    assert inside.dtype == outside.dtype
    assert torch.equal(inside, outside)


@pytest.mark.parametrize("name", CASES)
def test_the_samples_of_the_record_pass(name):
    record = OPERATORS[name]
    for sample in record.samples:
        values = record.values(sample)
        args, keywords = record.inputs(values, torch.Generator().manual_seed(0))
        compared = record.compare(record.function(*args, **keywords), *args, **keywords)
        assert compared.ok, (sample, compared)
