"""Softmax over one dimension of any length, and its gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from tilewright.runtime import register_operator, short_name

from . import checks
from .errors import OptionError
from .kernels import call, kernel_of
from .rows import MAX_WIDTH, access_elements, as_rows, piece_tile, pitch
from .softmax_programs import softmax_backward, softmax_forward

_BACKWARD_WHOLE = 16384  # columns of a row whose two operands stay in registers together

SCHEMA = "(Tensor x) -> Tensor"


def bound_values(most: int, *matrices: torch.Tensor) -> Mapping[str, Any]:
    """What the program for matrices (M, N) is bound to; rows of at most ``most`` columns are read once."""
    tile, whole = piece_tile(matrices[0].shape[1], access_elements(*matrices), most, 16 if len(matrices) == 1 else 12)
    return {"dtype": short_name(matrices[0].dtype), **asdict(tile), "whole": whole}


def forward_values(x: torch.Tensor) -> Mapping[str, Any]:
    """What the forward program for a matrix x is bound to."""
    return bound_values(MAX_WIDTH, x)


def _check(x: torch.Tensor) -> None:
    checks.require_float("softmax", x=x)
    checks.require_rows("softmax", "x", x)


def _forward(x: torch.Tensor) -> torch.Tensor:
    y = _fake(x)
    if x.numel():
        rows = as_rows(x)
        values = forward_values(rows)
        call(kernel_of(softmax_forward, **values), rows, y.view(rows.shape), pitch(rows) // values["access"])
    return y


def _fake(x: torch.Tensor) -> torch.Tensor:
    _check(x)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _gradient(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    dx = _gradient_fake(dy, y)
    if y.numel():
        one, other = as_rows(dy), as_rows(y)
        values = bound_values(_BACKWARD_WHOLE, one, other)
        access = values["access"]
        kernel = kernel_of(softmax_backward, **values)
        call(kernel, one, other, dx.view(other.shape), pitch(one) // access, pitch(other) // access)
    return dx


def _gradient_fake(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.empty(y.shape, dtype=y.dtype, device=y.device)


_gradient_operator = register_operator(
    "softmax_backward", "(Tensor dy, Tensor y) -> Tensor", _gradient, fake=_gradient_fake
)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(output)


def _backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = _gradient_operator(dy, *ctx.saved_tensors)
    return result


_operator = register_operator("softmax", SCHEMA, _forward, fake=_fake, backward=_backward, setup_context=_keep)


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """exp(x - max) / sum(exp(x - max)) over one dimension, computed in float32.

    A row without a finite value or with NaN gives NaN, as in torch. Rows of up to 32768 elements are read once, longer
    ones twice. A dimension other than the last is copied to the end first.

    Args:
        x: (..., N, ...) of float16, bfloat16 or float32; any N; rows of any pitch.
        dim: the dimension whose elements sum to 1.

    Returns:
        y like x; the result of another dimension than the last is a view of a tensor that has it last. Differentiable
        once. Autocast leaves the dtype as it is: sums are float32 in any case.

    Raises:
        OperandTypeError: another dtype.
        ShapeError: a tensor of rank 0, or more than 2^31 - 1 rows or columns.
        OptionError: a dimension that x does not have.
    """
    checks.require_rows("softmax", "x", x)
    if not -x.dim() <= dim < x.dim():
        raise OptionError(
            f"softmax: dim = {dim}, x has rank {x.dim()}", remedy=f"use one of {-x.dim()} to {x.dim() - 1}"
        )
    y: torch.Tensor = _operator(x.movedim(dim, -1))
    return y.movedim(-1, dim)
