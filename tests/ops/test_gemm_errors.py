"""What matmul refuses: each message names the argument, the value and the remedy in at most twelve lines."""

import pytest
import torch
from gemm_cases import matrix

import tilewright as tw
from tilewright.ops import OPERATORS, find_operator, gemm
from tilewright.ops.errors import (
    DeviceMismatch,
    OperandTypeError,
    OptionError,
    ShapeError,
    UnknownOperator,
)

A, B = matrix(8, 16), matrix(16, 24)

MISTAKES = [
    (lambda: gemm(A, B.bfloat16()), OperandTypeError, r"a is float16 but b is bfloat16\n  fix: convert one, such as b"),
    (lambda: gemm(A, B[:8]), ShapeError, r"a has K = 16 columns but b has K = 8 rows"),
    (lambda: gemm(A, B.mT), ShapeError, r"pass b\.mT \(a view, nothing is copied\)"),
    (lambda: gemm(A[0], B), ShapeError, r"a has rank 1, matmul needs matrices\n  seen: a = \(16,\)\n  fix: add a dim"),
    (lambda: gemm(A, B[:, 0]), ShapeError, r"b has rank 1"),
    (
        lambda: gemm(A.double(), B.double()),
        OperandTypeError,
        r"a has dtype float64.*\n  fix: convert a and b to one of",
    ),
    (lambda: gemm(A, B, out_dtype=torch.int32), OperandTypeError, "out_dtype int32 cannot be made from float16"),
    (lambda: gemm(A, B, activation="swish"), OptionError, "unknown activation 'swish'"),
    (lambda: gemm(A, B, activation="gleu"), OptionError, "did you mean 'gelu'"),
    (lambda: gemm(A, B, torch.zeros(23, dtype=torch.float16)), ShapeError, r"bias has shape \(23,\).* is \(24,\)"),
    (lambda: gemm(A, B, torch.zeros(24, 1, dtype=torch.float16)), ShapeError, r"bias has shape \(24, 1\)"),
    (lambda: gemm(A, B, torch.zeros(24, dtype=torch.int32)), OperandTypeError, "bias is int32, the result float16"),
    (lambda: gemm(A, B.to("meta")), DeviceMismatch, "a = cpu, b = meta"),
    (lambda: gemm(A[None].expand(2, 8, 16), B.expand(3, 16, 24)), ShapeError, r"batches \(2,\) of a and \(3,\) of b"),
    (lambda: gemm(A.to(torch.int8), B.to(torch.int8), activation="gelu"), OptionError, "would round to whole numbers"),
]


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert len(str(caught.value).splitlines()) <= 12
    assert isinstance(caught.value, tw.errors.TilewrightError)


def test_8_bit_floats_on_a_target_without_them():
    a = A.to(torch.float8_e4m3fn)
    with tw.use(target="sm_80"), pytest.raises(OperandTypeError, match=r"units of sm_80 do not take\n  fix: use sm_89"):
        gemm(a, a.mT)


def test_shape_errors_are_value_errors_and_type_errors_type_errors():
    assert issubclass(ShapeError, ValueError)
    assert issubclass(OperandTypeError, TypeError)


def test_an_unknown_operator_lists_the_known():
    with pytest.raises(UnknownOperator, match=r"no operator is called 'gem'.*\n  fix: did you mean 'gemm'"):
        find_operator("gem")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"l": "4"}, "no parameter 'l'"),
        ({"m": "x"}, "m = 'x' is no whole number"),
        ({"bias": "maybe"}, "bias = 'maybe' is neither true nor false"),
    ],
)
def test_values_of_a_command_line_are_checked(given, message):
    with pytest.raises(OptionError, match=message):
        OPERATORS["gemm"].values(given)


def test_values_of_a_command_line_take_the_type_of_the_default():
    values = OPERATORS["gemm"].values({"m": "12", "bias": "yes", "activation": "gelu", "out_dtype": "none"})
    assert (values["m"], values["bias"], values["activation"], values["out_dtype"]) == (12, True, "gelu", None)


@pytest.mark.parametrize("given", [1, True, "1", "yes"])
def test_a_switch_given_as_a_number_is_the_same_kernel(given):
    assert OPERATORS["gemm"].values({"transpose_a": given})["transpose_a"] is True


def test_a_fraction_is_no_size():
    with pytest.raises(OptionError, match=r"m = 2.5 is no whole number"):
        OPERATORS["gemm"].values({"m": 2.5})
