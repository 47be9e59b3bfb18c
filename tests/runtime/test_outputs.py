"""Outputs allocated by a call, empty tensors, kernels without arguments."""

from __future__ import annotations

import pytest
import torch

from tilewright.lowering import KernelLaunch, LaunchPlan, PointerParameter
from tilewright.runtime import ArgumentError, Kernel, errors


class CountingDevice:
    """Counts launcher calls and keeps what they were given."""

    def __init__(self):
        self.calls = []

    def prepare(self, artifact, signature, index):
        return lambda *flat: self.calls.append(flat)


def half(*shape):
    return torch.zeros(*shape, dtype=torch.float16)


@pytest.fixture
def device():
    return CountingDevice()


@pytest.mark.parametrize("out_idx", [2, -1, [2], [-1], (2,)])
def test_out_idx_spellings(tools, device, out_idx):
    kernel = Kernel(tools.artifact(tools.gemm_plan()), out_idx, device=device)
    result = kernel(half(8, 16), half(16, 24))
    assert (result.shape, result.dtype) == ((8, 24), torch.float16)
    objects = device.calls[0][:3]
    assert objects[2] is result
    assert device.calls[0][3:6] == tuple(tensor.data_ptr() for tensor in objects)
    assert device.calls[0][6:] == (16, 8, 24)


def test_several_outputs_come_in_the_order_asked(tools, device):
    launch = KernelLaunch("k", tools.e(1, 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], (PointerParameter("x"),))
    arguments = (
        tools.tensor("x", "n"),
        tools.tensor("sum", 1, dtype="float32"),
        tools.tensor("twice", "n * 2", dtype="int8"),
    )
    plan = LaunchPlan("k", arguments, ("n",), (launch,))
    twice, total = Kernel(tools.artifact(plan), [-1, 1], device=device)(half(6))
    assert (twice.shape, twice.dtype, total.shape, total.dtype) == ((12,), torch.int8, (1,), torch.float32)


@pytest.mark.parametrize(
    ("out_idx", "message"),
    [
        (3, "out_idx = 3 is out of range: main has 3 parameters"),
        (-4, "out_idx = -4 is out of range"),
        ([2, -1], "names a parameter twice"),
        ([0, 2], "no input has the size M alone as a dimension"),
    ],
)
def test_bad_out_idx(tools, out_idx, message):
    with pytest.raises(errors.OutputIndexError, match=message):
        Kernel(tools.artifact(tools.gemm_plan()), out_idx)


def test_scalar_as_output(tools):
    with pytest.raises(errors.OutputIndexError, match="out_idx = 1 names alpha, which is a scalar"):
        Kernel(tools.artifact(tools.affine_plan()), 1)


def test_output_with_declared_strides(tools, device):
    launch = KernelLaunch("k", tools.e(1, 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], (PointerParameter("x"),))
    plan = LaunchPlan("k", (tools.tensor("x", "n"), tools.tensor("y", "n", 4, strides=(8, 1))), ("n",), (launch,))
    assert Kernel(tools.artifact(plan), 1, device=device)(half(3)).stride() == (8, 1)


def test_empty_output_launches_nothing(tools, device):
    kernel = Kernel(tools.artifact(tools.gemm_plan()), -1, device=device)
    assert kernel(half(0, 16), half(16, 24)).shape == (0, 24)
    assert device.calls == []


def test_empty_input_that_tma_reads(tools, device):
    """The sum over nothing is zero, not whatever memory held: no launch is possible, so the call is refused."""
    kernel = Kernel(tools.artifact(tools.gemm_plan()), -1, device=device)
    with pytest.raises(ArgumentError, match="A is empty and main reads or writes it by TMA"):
        kernel(half(8, 0), half(0, 24))


def test_empty_input_by_pointer_launches(tools, device):
    """A kernel that reads nothing may still write its output."""
    launch = KernelLaunch("k", tools.e(1, 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], (PointerParameter("x"),))
    plan = LaunchPlan("k", (tools.tensor("x", "n"), tools.tensor("y", 4, written=True)), ("n",), (launch,))
    assert Kernel(tools.artifact(plan), 1, device=device)(half(0)).shape == (4,)
    assert len(device.calls) == 1


def test_empty_grid_returns_the_output(affine):
    assert affine(torch.zeros(0), 1.0, 0).shape == (0,)


def test_no_arguments(tools, device):
    plan = LaunchPlan("k", (), (), (KernelLaunch("k", tools.e(1, 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], ()),))
    kernel = Kernel(tools.artifact(plan), device=device)
    assert kernel() is None
    assert device.calls == [()]
    with pytest.raises(errors.ArgumentCountError, match="k takes 0 arguments, got 1"):
        kernel(half(1))


def test_only_outputs(tools, device):
    launch = KernelLaunch("k", tools.e(1, 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], (PointerParameter("y"),))
    plan = LaunchPlan("k", (tools.tensor("y", 5, dtype="int64", written=True),), (), (launch,))
    result = Kernel(tools.artifact(plan), 0, device=device)()
    assert (result.shape, result.dtype, result.device.type) == ((5,), torch.int64, "cpu")
