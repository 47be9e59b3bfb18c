"""What a matmul accepts: checks of its arguments, and the types of its result."""

from __future__ import annotations

import difflib

import torch

from tilewright.dsl import Target
from tilewright.runtime import short_name

from .checks import LIMIT
from .errors import DeviceMismatch, OperandTypeError, OptionError, ShapeError
from .gemm_epilogue import ACTIVATIONS

FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)

_RESULTS: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.float16: (torch.float16, torch.float32, torch.bfloat16),
    torch.bfloat16: (torch.bfloat16, torch.float32, torch.float16),
    torch.float32: (torch.float32, torch.float16, torch.bfloat16),
    torch.int8: (torch.int32,),
    torch.float8_e4m3fn: (torch.bfloat16, torch.float16, torch.float32),
    torch.float8_e5m2: (torch.bfloat16, torch.float16, torch.float32),
}


def result_dtype(operand: torch.dtype, out_dtype: torch.dtype | None) -> torch.dtype:
    """The type of C: ``out_dtype``, else that of the operands (bfloat16 for 8-bit floats, int32 for int8).

    Raises:
        OperandTypeError: matmul has no such operands, or no such result of them.
    """
    allowed = _RESULTS.get(operand)
    if allowed is None:
        raise OperandTypeError(
            f"gemm: a has dtype {short_name(operand)}, which matmul does not take",
            remedy=f"convert a and b to one of {', '.join(map(short_name, _RESULTS))}",
        )
    if out_dtype is None:
        return allowed[0]
    if out_dtype not in allowed:
        raise OperandTypeError(
            f"gemm: out_dtype {short_name(out_dtype)} cannot be made from {short_name(operand)} operands",
            remedy=f"use one of {', '.join(map(short_name, allowed))}",
        )
    return out_dtype


def result_shape(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...]:
    """Shape of C, batch dimensions broadcast as ``torch.matmul`` does.

    Raises:
        ShapeError: a rank below 2, a K mismatch, batches that do not broadcast, or a size beyond 2^31 - 1.
    """
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dim() < 2:
            raise ShapeError(
                f"gemm: {name} has rank {tensor.dim()}, matmul needs matrices",
                values={name: tuple(tensor.shape)},
                remedy=f"add a dimension, such as {name}[None, :]" if tensor.dim() else f"pass {name} as a matrix",
            )
    if a.shape[-1] != b.shape[-2]:
        fits = b.shape[-1] == a.shape[-1]
        raise ShapeError(
            f"gemm: a has K = {a.shape[-1]} columns but b has K = {b.shape[-2]} rows",
            values={"a": tuple(a.shape), "b": tuple(b.shape)},
            remedy="pass b.mT (a view, nothing is copied)" if fits else "a is (..., M, K) and b (K, N) or (..., K, N)",
        )
    if max((*a.shape, *b.shape)) > LIMIT:
        raise ShapeError(
            f"gemm: a size exceeds {LIMIT}",
            values={"a": tuple(a.shape), "b": tuple(b.shape)},
            remedy="split the matrix",
        )
    return (*_batch_shape(a, b), a.shape[-2], b.shape[-1])


def _batch_shape(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...]:
    if b.dim() == 2:
        return tuple(a.shape[:-2])
    try:
        return tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))  # type: ignore[no-untyped-call]
    except RuntimeError:
        raise ShapeError(
            f"gemm: batches {tuple(a.shape[:-2])} of a and {tuple(b.shape[:-2])} of b do not broadcast",
            values={"a": tuple(a.shape), "b": tuple(b.shape)},
            remedy="make the leading dimensions equal or 1",
        ) from None


def check_arguments(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    out_dtype: torch.dtype | None,
) -> tuple[tuple[int, ...], torch.dtype]:
    """Shape and dtype of the result.

    Raises:
        OperandTypeError: mixed or unsupported element types.
        ShapeError: shapes that do not fit.
        DeviceMismatch: tensors on different devices.
        OptionError: an unknown activation.
    """
    if a.dtype != b.dtype:
        raise OperandTypeError(
            f"gemm: a is {short_name(a.dtype)} but b is {short_name(b.dtype)}",
            remedy=f"convert one, such as b.to(torch.{short_name(a.dtype)})",
        )
    result = result_dtype(a.dtype, out_dtype)
    shape = result_shape(a, b)
    if bias is not None:
        _check_bias(bias, shape[-1], a, result)
    _check_devices(a, b, bias)
    _check_activation(activation, a.dtype)
    return shape, result


def _check_bias(bias: torch.Tensor, columns: int, a: torch.Tensor, result: torch.dtype) -> None:
    if tuple(bias.shape) != (columns,):
        raise ShapeError(
            f"gemm: bias has shape {tuple(bias.shape)}, one value a column of b is ({columns},)",
            remedy="pass a vector of N values",
        )
    allowed = (torch.int32,) if a.dtype == torch.int8 else tuple(dict.fromkeys((result, torch.float32)))
    if bias.dtype not in allowed:
        raise OperandTypeError(
            f"gemm: bias is {short_name(bias.dtype)}, the result {short_name(result)}",
            remedy=f"convert bias to {' or '.join(map(short_name, allowed))}",
        )


def _check_devices(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> None:
    tensors = {"a": a, "b": b} | ({} if bias is None else {"bias": bias})
    if len({tensor.device for tensor in tensors.values()}) > 1:
        raise DeviceMismatch(
            "gemm: its tensors are on different devices",
            values={name: tensor.device for name, tensor in tensors.items()},
            remedy=f"move them to one device, such as .to({str(a.device)!r})",
        )


def _check_activation(activation: str | None, operand: torch.dtype) -> None:
    if activation is None:
        return
    if activation not in ACTIVATIONS:
        close = difflib.get_close_matches(str(activation), ACTIVATIONS, n=1)
        raise OptionError(
            f"gemm: unknown activation {activation!r}",
            remedy=(f"did you mean {close[0]!r}? " if close else "") + f"use None or one of {', '.join(ACTIVATIONS)}",
        )
    if operand == torch.int8 and activation != "relu":
        raise OptionError(
            f"gemm: activation {activation!r} of an int32 result would round to whole numbers",
            remedy="use 'relu', or convert the result to a float type first",
        )


def check_target(operand: torch.dtype, target: Target) -> None:
    """Refuse operands that the target's matrix units lack.

    Raises:
        OperandTypeError: 8-bit floats on a target without them.
    """
    if operand in FP8 and not target.has_fp8_mma:
        raise OperandTypeError(
            f"gemm: a and b are {short_name(operand)}, which the matrix units of {target.name} do not take",
            remedy="use sm_89 or sm_90a, or convert to float16",
        )
