"""Every rejection of a call names the argument, what was seen and what to do."""

from __future__ import annotations

import numpy
import pytest
import torch

from tilewright.lowering import KernelLaunch, LaunchPlan, PointerParameter, ScalarArgument
from tilewright.runtime import ArgumentError, GradientError, Kernel, NullDevice, errors
from tilewright.runtime.diagnose import wrong_device


def half(*shape):
    return torch.zeros(*shape, dtype=torch.float16)


@pytest.fixture
def gemm(tools):
    return Kernel(tools.artifact(tools.gemm_plan()), device=NullDevice())


@pytest.fixture
def abc():
    return {"A": half(64, 256), "B": half(256, 128), "C": half(64, 128)}


def rejected(kernel, tensors, **changed):
    with pytest.raises(ArgumentError) as caught:
        kernel(*{**tensors, **changed}.values())
    assert len(str(caught.value).splitlines()) <= 12
    return str(caught.value)


def test_accepts_what_fits(gemm, abc):
    assert gemm(*abc.values()) is None
    assert gemm(**abc) is None


def test_none(gemm, abc):
    assert "A is None, main needs a float16 tensor of shape (M, K)" in rejected(gemm, abc, A=None)


@pytest.mark.parametrize(("value", "seen"), [(3.0, "a float"), (True, "a bool"), ([1], "a list"), ("x", "a str")])
def test_python_value_for_a_tensor(gemm, abc, value, seen):
    assert f"B is {seen}, main needs a float16 tensor" in rejected(gemm, abc, B=value)


def test_numpy_array(gemm, abc):
    assert "pass torch.from_numpy(A)" in rejected(gemm, abc, A=numpy.zeros((64, 256), numpy.float16))


def test_dtype(gemm, abc):
    message = rejected(gemm, abc, B=abc["B"].float())
    assert "B is float32, main needs float16" in message
    assert "B.to(torch.float16)" in message


def test_rank(gemm, abc):
    message = rejected(gemm, abc, A=half(256))
    assert "A has 1 dimension, main needs 2: (M, K)" in message
    assert "A.shape = (256,)" in message


def test_row_for_a_vector(tools):
    """A (1, 128) tensor does not pass for a vector of 128."""
    kernel = Kernel(tools.artifact(tools.affine_plan(), tools.affine_ptx, "sm_80"), device=NullDevice())
    with pytest.raises(ArgumentError, match=r"x has 2 dimensions, affine needs 1: \(n,\)"):
        kernel(torch.zeros(1, 128), 1.0, 0, torch.zeros(128))


def test_symbolic_size_disagrees(gemm, abc):
    message = rejected(gemm, abc, C=half(64, 96))
    assert "C: shape[1] is 96, must equal N = 128 (from B.shape[1])" in message


def test_constant_size(tools, abc):
    kernel = Kernel(tools.artifact(tools.gemm_plan(64, 128, 256)), device=NullDevice())
    assert "C: shape[1] is 96, must equal 128" in rejected(kernel, abc, C=half(64, 96))
    assert kernel(*abc.values()) is None


def test_meta_device(gemm, abc):
    message = rejected(gemm, abc, B=abc["B"].to("meta"))
    assert "B is on meta, main needs cuda, or cpu for the virtual GPU" in message
    assert "A is on meta" in rejected(gemm, {name: tensor.to("meta") for name, tensor in abc.items()})


def test_cpu_among_cuda():
    """Devices are compared by name, so the check needs no GPU."""
    cuda, cpu = torch.device("cuda", 0), torch.device("cpu")
    with pytest.raises(ArgumentError) as caught:
        wrong_device("main", {"A": cpu, "B": cuda})
    assert "A is on cpu, main needs cuda" in str(caught.value)
    assert "A.to('cuda:0')" in str(caught.value)
    with pytest.raises(ArgumentError, match="B is on cuda:1, the other tensors are on cuda:0"):
        wrong_device("main", {"A": cuda, "B": torch.device("cuda", 1)})
    wrong_device("main", {"A": cuda, "B": cuda})


def test_transposed(gemm, abc):
    message = rejected(gemm, abc, A=half(256, 64).t())
    assert "A has gaps or another order in memory: strides (1, 64), the kernel needs (256, 1)" in message
    assert "pass A.contiguous()" in message


def test_every_other_row(gemm, abc):
    assert "pass A.contiguous()" in rejected(gemm, abc, A=half(128, 256)[::2])


def test_expanded(gemm, abc):
    message = rejected(gemm, abc, B=half(256, 1).expand(256, 128))
    assert "B is expanded (stride 0 along dimension 1)" in message
    assert "pass B.contiguous()" in message


def test_output_with_gaps_is_copied_back(gemm, abc):
    assert "copy it back with C.copy_(...)" in rejected(gemm, abc, C=half(128, 128)[::2])


def test_size_one_has_any_stride(gemm):
    row = half(256, 2).t()[:1]
    row = row.as_strided((1, 256), (7, 1))
    assert gemm(row, half(256, 128), half(1, 128)) is None


def test_sparse(gemm, abc):
    assert "A has the layout torch.sparse_coo, main needs a dense tensor" in rejected(gemm, abc, A=abc["A"].to_sparse())


def test_requires_grad(gemm, abc):
    with pytest.raises(GradientError) as caught:
        gemm(abc["A"].requires_grad_(), abc["B"], abc["C"])
    assert "A requires a gradient, and main has no backward" in str(caught.value)
    assert "register_operator" in str(caught.value)
    with torch.no_grad():
        assert gemm(*abc.values()) is None
        assert gemm(torch.nn.Parameter(abc["A"]), abc["B"], abc["C"]) is None


def test_misaligned_for_tma(gemm, abc):
    shifted = half(64 * 256 + 1)[1:].view(64, 256)
    message = rejected(gemm, abc, A=shifted)
    assert "A starts at an address that is no multiple of 16 bytes" in message
    assert "off by = 2 bytes" in message


def test_pitch_for_tma(gemm):
    with pytest.raises(ArgumentError, match="A: a pitch of 510 bytes is no multiple of 16, as TMA needs"):
        gemm(half(64, 255), half(255, 128), half(64, 128))


def test_count(gemm, abc):
    with pytest.raises(errors.ArgumentCountError, match="main takes 3 arguments, got 2; missing C"):
        gemm(abc["A"], abc["B"])
    with pytest.raises(TypeError, match="main takes 3 arguments, got 4"):
        gemm(*abc.values(), abc["A"])
    with pytest.raises(errors.ArgumentCountError, match="D is not an argument of main"):
        gemm(**abc, D=abc["A"])
    with pytest.raises(errors.ArgumentCountError, match="A was given twice of main"):
        gemm(abc["A"], A=abc["A"])


def test_count_with_outputs_says_what_is_returned(tools, abc):
    kernel = Kernel(tools.artifact(tools.gemm_plan()), out_idx=[-1], device=NullDevice())
    with pytest.raises(errors.ArgumentCountError, match=r"call main\(A, B\); C is allocated and returned"):
        kernel(*abc.values())


@pytest.fixture
def scaled(tools):
    return Kernel(tools.artifact(tools.affine_plan(), tools.affine_ptx, "sm_80"), out_idx=-1, device=NullDevice())


def test_numbers_are_converted(scaled):
    x = torch.zeros(8)
    assert scaled(x, 2, numpy.int8(3)).shape == (8,)
    assert scaled(x, numpy.float32(0.5), True).shape == (8,)


def test_number_out_of_range(scaled):
    with pytest.raises(ArgumentError, match="shift is 128, outside the range of int8"):
        scaled(torch.zeros(8), 1.0, 128)


@pytest.mark.parametrize("value", [None, torch.zeros(1), "1"])
def test_no_number(scaled, value):
    with pytest.raises(ArgumentError, match=r"alpha is .*, the kernel needs a number of type float32"):
        scaled(torch.zeros(8), value, 0)


def test_fraction_for_an_integer(scaled):
    with pytest.raises(ArgumentError, match=r"shift is 1.5 \(float\), the kernel needs a number of type int8"):
        scaled(torch.zeros(8), 1.0, 1.5)


def test_unknown_element_type(tools):
    launch = KernelLaunch("k", tools.e(1, 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], (PointerParameter("A"),))
    plan = LaunchPlan("k", (tools.tensor("A", 8, dtype="float6_e2m3"),), (), (launch,))
    with pytest.raises(ArgumentError, match="A: torch has no element type float6_e2m3"):
        Kernel(tools.artifact(plan))


def test_declared_strides(tools):
    launch = KernelLaunch("k", tools.e(1, 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], (PointerParameter("A"),))
    argument = tools.tensor("A", "M", 8, strides=("S", 1))
    kernel = Kernel(tools.artifact(LaunchPlan("k", (argument,), ("M", "S"), (launch,))), device=NullDevice())
    assert kernel(half(4, 16)[:, :8]) is None
    with pytest.raises(ArgumentError, match=r"A has gaps .* strides \(16, 2\), the kernel needs \(16, 1\)"):
        kernel(half(4, 16)[:, ::2])


def test_sizes_given_as_a_product(tools):
    """A size declared as K8 * 8 tells K8, and is refused when it is no multiple of 8."""
    launch = KernelLaunch("k", tools.e("K8", 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], (PointerParameter("A"),))
    kernel = Kernel(
        tools.artifact(LaunchPlan("k", (tools.tensor("A", "K8 * 8"),), ("K8",), (launch,))), device=NullDevice()
    )
    assert kernel(half(16)) is None
    with pytest.raises(ArgumentError, match=r"A: shape\[0\] is 17, must equal K8 \* 8 = 16"):
        kernel(half(17))


def test_size_given_as_a_number(tools):
    launch = KernelLaunch("k", tools.e("n", 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], (PointerParameter("A"),))
    plan = LaunchPlan("k", (tools.tensor("A", "n"), ScalarArgument("n", "int32")), ("n",), (launch,))
    kernel = Kernel(tools.artifact(plan), device=NullDevice())
    assert kernel(half(16), 16) is None
    with pytest.raises(ArgumentError, match=r"A: shape\[0\] is 17, must equal n = 16 \(from n\)"):
        kernel(half(17), 16)


def test_a_write_counts_for_autograd(gemm, abc):
    """A backward that saved the tensor before must fail, so its version goes up; read tensors keep theirs."""
    versions = {name: tensor._version for name, tensor in abc.items()}
    gemm(*abc.values())
    assert {name: tensor._version - versions[name] for name, tensor in abc.items()} == {"A": 0, "B": 0, "C": 1}
