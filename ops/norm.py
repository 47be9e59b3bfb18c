"""RMSNorm and LayerNorm, with an optional residual added first; each pass reads and writes a row once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from tilewright.dsl import KernelFactory
from tilewright.runtime import register_operator, short_name

from . import checks
from .errors import OptionError
from .kernels import call, kernel_of
from .norm_backward import norm_backward
from .norm_programs import layer_forward, rms_forward
from .rows import MAX_WIDTH, access_elements, as_rows, pitch, row_tile

_SHARES = 264  # blocks of the backward pass: two for each multiprocessor of the largest target
_BACKWARD_PER_THREAD = 12  # elements of a row: four such rows are live at once

RMS_SCHEMA = "(Tensor x, Tensor? weight, float eps, Tensor? residual=None) -> (Tensor, Tensor, Tensor)"
LAYER_SCHEMA = (
    "(Tensor x, Tensor? weight, Tensor? bias, float eps, Tensor? residual=None) -> (Tensor, Tensor, Tensor, Tensor)"
)
_BACKWARD_SCHEMA = (
    "(Tensor dy, Tensor? dtotal, Tensor x, Tensor? weight, Tensor? mean, Tensor rstd, bool biased)"
    " -> (Tensor, Tensor, Tensor)"
)


def _check(
    operator: str,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    residual: torch.Tensor | None,
) -> None:
    checks.require_float(operator, x=x, weight=weight, bias=bias, residual=residual)
    checks.require_rows(operator, "x", x, MAX_WIDTH)
    checks.require_device(operator, "x", x, weight=weight, bias=bias, residual=residual)
    checks.require_vector(operator, "weight", weight, x.shape[-1])
    checks.require_vector(operator, "bias", bias, x.shape[-1])
    if residual is not None:
        checks.require_like(operator, "residual", residual, "x", x)
    if not eps >= 0:
        raise OptionError(f"{operator}: eps = {eps} is below zero", remedy="use a small number, such as 1e-6")


def forward_factory(
    kind: str,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
) -> tuple[KernelFactory, Mapping[str, Any]]:
    """The forward program for matrices x and residual (M, N), and what it is bound to."""
    access = access_elements(*(tensor for tensor in (x, weight, bias, residual) if tensor is not None))
    tile = row_tile(x.shape[-1], access)
    values = {
        "dtype": short_name(x.dtype),
        "weight_dtype": None if weight is None else short_name(weight.dtype),
        "residual": residual is not None,
        **asdict(tile),
    }
    if kind == "rms":
        return rms_forward, values
    return layer_forward, {**values, "bias_dtype": None if bias is None else short_name(bias.dtype)}


def _forward(
    kind: str,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    residual: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    y, total, mean, rstd = _results(kind, x, weight, bias, eps, residual)
    if x.numel() == 0:
        return y, total, mean.zero_(), rstd.zero_()
    rows, other = as_rows(x), None if residual is None else as_rows(residual)
    weight, bias = (None if vector is None else vector.contiguous() for vector in (weight, bias))
    factory, values = forward_factory(kind, rows, weight, bias, other)
    access = values["access"]
    call(
        kernel_of(factory, **values),
        rows,
        other,
        weight,
        bias,
        y.view(rows.shape),
        None if other is None else total.view(rows.shape),
        mean.view(-1) if kind == "layer" else None,
        rstd.view(-1),
        eps,
        pitch(rows) // access,
        None if other is None else pitch(other) // access,
    )
    return y, total, mean, rstd


def _results(
    kind: str,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    residual: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """New tensors for y, total (empty without a residual), mean (empty for rms) and rstd of arguments that fit."""
    _check(f"{kind}_norm", x, weight, bias, eps, residual)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    total = torch.empty(x.shape if residual is not None else (0,), dtype=x.dtype, device=x.device)
    mean = torch.empty(x.shape[:-1] if kind == "layer" else (0,), dtype=torch.float32, device=x.device)
    rstd = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    return y, total, mean, rstd


def _rms(
    x: torch.Tensor, weight: torch.Tensor | None, eps: float, residual: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    y, total, _, rstd = _forward("rms", x, weight, None, eps, residual)
    return y, total, rstd


def _rms_fake(
    x: torch.Tensor, weight: torch.Tensor | None, eps: float, residual: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    y, total, _, rstd = _results("rms", x, weight, None, eps, residual)
    return y, total, rstd


def _layer(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    residual: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    return _forward("layer", x, weight, bias, eps, residual)


def _layer_fake(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    residual: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    return _results("layer", x, weight, bias, eps, residual)


def _backward(
    dy: torch.Tensor,
    dtotal: torch.Tensor | None,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor | None,
    rstd: torch.Tensor,
    biased: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    n = x.shape[-1]
    dx, dweight, dbias = _gradients(dy, dtotal, x, weight, mean, rstd, biased)
    if x.numel() == 0:
        return dx, dweight.zero_(), dbias.zero_()
    rows_y, rows_x = as_rows(dy), as_rows(x)
    rows_t = None if dtotal is None else as_rows(dtotal)
    weight = None if weight is None else weight.contiguous()
    access = access_elements(*(t for t in (rows_y, rows_t, rows_x, weight) if t is not None))
    tile = row_tile(n, access, _BACKWARD_PER_THREAD)
    blocks = min(_SHARES, rows_x.shape[0])
    shares = {
        name: torch.empty((blocks, n), dtype=torch.float32, device=x.device) if wanted else None
        for name, wanted in (("weight", weight is not None), ("bias", biased))
    }
    kernel = kernel_of(
        norm_backward,
        kind="rms" if mean is None else "layer",
        dtype=short_name(x.dtype),
        weight_dtype=None if weight is None else short_name(weight.dtype),
        biased=biased,
        residual=dtotal is not None,
        width=max(tile.width, tile.threads * access),
        threads=tile.threads,
        access=access,
    )
    call(
        kernel, rows_y, rows_t, rows_x, weight, None if mean is None else mean.reshape(-1), rstd.reshape(-1),
        dx.view(rows_x.shape), shares["weight"], shares["bias"], pitch(rows_y) // access, pitch(rows_x) // access,
        None if rows_t is None else pitch(rows_t) // access, blocks,
    )  # fmt: skip
    for share, total in ((shares["weight"], dweight), (shares["bias"], dbias)):
        if share is not None:
            torch.sum(share, 0, out=total)
    return dx, dweight, dbias


def _gradients(
    dy: torch.Tensor,
    dtotal: torch.Tensor | None,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor | None,
    rstd: torch.Tensor,
    biased: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """New tensors for dx, and float32 dweight and dbias (empty where there is none)."""
    n = x.shape[-1]
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dweight = torch.empty(n if weight is not None else 0, dtype=torch.float32, device=x.device)
    return dx, dweight, torch.empty(n if biased else 0, dtype=torch.float32, device=x.device)


_gradient_operator = register_operator("norm_backward", _BACKWARD_SCHEMA, _backward, fake=_gradients)


def _keep_rms(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, weight, _, residual = inputs
    ctx.residual = residual is not None
    ctx.save_for_backward(output[1] if ctx.residual else x, weight, output[2])
    ctx.mark_non_differentiable(output[2])
    ctx.set_materialize_grads(False)


def _rms_gradients(ctx: Any, dy: torch.Tensor | None, dtotal: torch.Tensor | None, _: Any) -> tuple[Any, ...]:
    x, weight, rstd = ctx.saved_tensors
    dx, dweight, _ = _gradient_of(ctx, dy, dtotal, x, weight, None, rstd, False)
    return dx, dweight, None, dx if ctx.residual else None


def _keep_layer(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, weight, bias, _, residual = inputs
    ctx.residual, ctx.bias_dtype = residual is not None, None if bias is None else bias.dtype
    ctx.save_for_backward(output[1] if ctx.residual else x, weight, output[2], output[3])
    ctx.mark_non_differentiable(output[2], output[3])
    ctx.set_materialize_grads(False)


def _layer_gradients(ctx: Any, dy: torch.Tensor | None, dtotal: torch.Tensor | None, *_: Any) -> tuple[Any, ...]:
    x, weight, mean, rstd = ctx.saved_tensors
    dx, dweight, dbias = _gradient_of(ctx, dy, dtotal, x, weight, mean, rstd, ctx.bias_dtype is not None)
    return dx, dweight, None if dbias is None else dbias.to(ctx.bias_dtype), None, dx if ctx.residual else None


def _gradient_of(
    ctx: Any,
    dy: torch.Tensor | None,
    dtotal: torch.Tensor | None,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor | None,
    rstd: torch.Tensor,
    biased: bool,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    if dy is None and dtotal is None:
        return None, None, None
    dy = torch.zeros_like(x) if dy is None else dy
    total = dtotal if ctx.residual else None
    dx, dweight, dbias = _gradient_operator(dy, total, x, weight, mean, rstd, biased)
    return dx, None if weight is None else dweight.to(weight.dtype), dbias if biased else None


_rms_operator = register_operator(
    "rms_norm", RMS_SCHEMA, _rms, fake=_rms_fake, backward=_rms_gradients, setup_context=_keep_rms
)
_layer_operator = register_operator(
    "layer_norm", LAYER_SCHEMA, _layer, fake=_layer_fake, backward=_layer_gradients, setup_context=_keep_layer
)


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None, eps: float = 1e-6, residual: torch.Tensor | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in float32 (arXiv 1910.07467).

    Args:
        x: (..., N) of float16, bfloat16 or float32; N at most 32768; rows of any pitch.
        weight: (N,) of any of these dtypes, or None.
        eps: added to the mean square.
        residual: (..., N) like x; x + residual, rounded to x's dtype, is then what is normalised.

    Returns:
        y like x; with a residual ``(y, x + residual)``. Differentiable once.

    Raises:
        OperandTypeError: another dtype, or a residual of another dtype than x.
        ShapeError: a weight or residual that does not fit x, or too many columns.
        DeviceMismatch: tensors on different devices.
        OptionError: eps below zero.
    """
    y, total, _ = _rms_operator(x, weight, eps, residual)
    return y if residual is None else (y, total)


def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float = 1e-5,
    residual: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimension, in float32 (arXiv 1607.06450).

    Args:
        x: (..., N) of float16, bfloat16 or float32; N at most 32768; rows of any pitch.
        weight: (N,) of any of these dtypes, or None.
        bias: the same, or None.
        eps: added to the variance.
        residual: (..., N) like x; x + residual, rounded to x's dtype, is then what is normalised.

    Returns:
        y like x; with a residual ``(y, x + residual)``. Differentiable once.

    Raises:
        OperandTypeError: another dtype, or a residual of another dtype than x.
        ShapeError: a weight, bias or residual that does not fit x, or too many columns.
        DeviceMismatch: tensors on different devices.
        OptionError: eps below zero.
    """
    y, total, *_ = _layer_operator(x, weight, bias, eps, residual)
    return y if residual is None else (y, total)
