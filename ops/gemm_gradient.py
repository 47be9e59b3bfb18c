"""Gradients of matmul, by matmul: da = dz b^T, db = a^T dz through transposed views, dbias = column sums of dz."""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright.runtime import short_name

from .checks import FLOATS
from .errors import OperandTypeError


def multiply(*args: Any) -> torch.Tensor:
    """``gemm`` as the torch operator, so that its products have gradients too."""
    result: torch.Tensor = torch.ops.tilewright.gemm(*args)
    return result


def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Keep the operands, and the result when the activation's derivative can be read off it.

    Raises:
        OperandTypeError: a gradient is asked of operands that matmul only multiplies forward.
    """
    a, b, bias, activation, _ = inputs
    if a.dtype not in FLOATS and (a.requires_grad or b.requires_grad):
        raise OperandTypeError(
            f"gemm: a and b are {short_name(a.dtype)}, for which matmul has no gradient",
            remedy="multiply float16, bfloat16 or float32 tensors, or detach a and b",
        )
    ctx.activation = activation
    ctx.save_for_backward(a, b, bias, output if activation == "relu" else None)


def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """Gradients of (a, b, bias, activation, out_dtype)."""
    a, b, bias, output = ctx.saved_tensors
    dz = through_activation(ctx.activation, grad, a, b, bias, output)
    need_a, need_b, need_bias = (*ctx.needs_input_grad, False)[:3]  # torch leaves out what was left to its default
    low = dz.to(a.dtype)
    return (
        _operand_gradient(low, b.mT, a.shape, a.dtype) if need_a else None,
        _right_gradient(a, low, b) if need_b else None,
        dz.sum(tuple(range(dz.dim() - 1)), dtype=torch.float32).to(bias.dtype) if need_bias else None,
        None,
        None,
    )


def through_activation(
    activation: str | None,
    grad: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    output: torch.Tensor | None,
) -> torch.Tensor:
    """The gradient of a b + bias from that of activation(a b + bias); ``output`` is kept for relu alone."""
    if activation is None:
        return grad
    if output is not None:
        return torch.where(output <= 0, torch.zeros_like(grad), grad)
    z = multiply(a, b, bias if bias is None or bias.dtype == torch.float32 else bias.float(), None, torch.float32)
    slope = _gelu_slope(z) if activation == "gelu" else _silu_slope(z)
    return grad * slope


def _gelu_slope(z: torch.Tensor) -> torch.Tensor:
    density = torch.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return 0.5 * (1.0 + torch.erf(z * math.sqrt(0.5))) + z * density


def _silu_slope(z: torch.Tensor) -> torch.Tensor:
    s = torch.sigmoid(z)
    return s * (1.0 + z * (1.0 - s))


def _operand_gradient(left: torch.Tensor, right: torch.Tensor, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """left @ right, summed over the batch dimensions that the operand of ``shape`` broadcast."""
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])  # type: ignore[no-untyped-call]
    if batch == shape[:-2]:
        return multiply(left, right, None, None, dtype)
    return multiply(left, right, None, None, torch.float32).sum_to_size(shape).to(dtype)


def _right_gradient(a: torch.Tensor, dz: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if b.dim() == 2:  # the batch is more rows: one product sums over it
        return multiply(a.flatten(0, -2).mT, dz.flatten(0, -2), None, None, b.dtype)
    return _operand_gradient(a.mT, dz, b.shape, b.dtype)
