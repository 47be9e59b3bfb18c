"""A linear layer on matmul: activation(x w^T + bias) in one launch, and its gradients."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.runtime import register_operator

from . import checks
from .errors import ShapeError
from .gemm import gemm
from .gemm_arguments import check_arguments
from .gemm_gradient import multiply, through_activation

SCHEMA = "(Tensor x, Tensor w, Tensor? bias=None, str? activation=None) -> Tensor"


def _check(x: torch.Tensor, w: torch.Tensor) -> None:
    checks.require_float("linear", x=x, w=w)
    if x.dim() < 2 or w.dim() != 2 or x.shape[-1] != w.shape[1]:
        raise ShapeError(
            "linear: x is not (..., K) with w (N, K)",
            values={"x": tuple(x.shape), "w": tuple(w.shape)},
            remedy="pass the weight as torch's Linear stores it",
        )


def _forward(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None, activation: str | None = None
) -> torch.Tensor:
    _check(x, w)
    return gemm(x, w.mT, bias, activation)


def _fake(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None, activation: str | None = None
) -> torch.Tensor:
    _check(x, w)
    shape, dtype = check_arguments(x, w.mT, bias, activation, None)
    return torch.empty(shape, dtype=dtype, device=x.device)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, w, bias, ctx.activation = (*inputs, None, None)[:4]
    ctx.save_for_backward(x, w, bias, output if ctx.activation == "relu" else None)


def _backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, w, bias, output = ctx.saved_tensors
    dz = through_activation(ctx.activation, dy, x, w.mT, bias, output)
    low = dz.to(x.dtype)
    need_x, need_w, need_bias = (*ctx.needs_input_grad, False)[:3]
    return (
        multiply(low, w) if need_x else None,
        multiply(low.flatten(0, -2).mT, x.flatten(0, -2)) if need_w else None,
        dz.sum(tuple(range(dz.dim() - 1)), dtype=torch.float32).to(bias.dtype) if need_bias else None,
        None,
    )


_operator = register_operator("linear", SCHEMA, _forward, fake=_fake, backward=_backward, setup_context=_keep)


def linear(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None, activation: str | None = None
) -> torch.Tensor:
    """activation(x w^T + bias), accumulated in float32, bias and activation applied before rounding.

    Args:
        x: (..., K) of float16, bfloat16 or float32, of any layout.
        w: (N, K) of the same dtype, as ``torch.nn.Linear`` stores it.
        bias: (N,) of that dtype or float32.
        activation: ``relu``, ``gelu`` (with the error function) or ``silu``.

    Returns:
        (..., N), contiguous. Differentiable, twice too. Under autocast all tensors become autocast's dtype, as those
        of ``torch.nn.functional.linear`` do.

    Raises:
        OperandTypeError: other dtypes, or two.
        ShapeError: shapes that do not fit.
        DeviceMismatch: tensors on different devices.
        OptionError: an unknown activation.
    """
    if torch.is_autocast_enabled(x.device.type):
        own = torch.get_autocast_dtype(x.device.type)
        x, w, bias = x.to(own), w.to(own), None if bias is None else bias.to(own)
    if x.dim() == 1:
        return linear(x[None], w, bias, activation)[0]
    result: torch.Tensor = _operator(x, w, bias, activation)
    return result
