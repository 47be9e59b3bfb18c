"""Cross-entropy of logits, or of hidden states whose logits never exist as a whole, and gradients."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.runtime import register_operator

from .errors import OptionError
from .logits import check_hidden, check_logits, chunked_gradients, chunked_statistics, gradient, log_sum_of, statistics
from .logits_programs import LOG_SUM, PICKED, SUM

_OPTIONS = "int ignore_index=-100, float label_smoothing=0., float z_loss=0."
SCHEMA = f"(Tensor logits, Tensor target, {_OPTIONS}) -> (Tensor, Tensor)"
LINEAR_SCHEMA = f"(Tensor hidden, Tensor weight, Tensor target, {_OPTIONS}, int chunk_rows=0) -> (Tensor, Tensor)"
_LOSS = "Tensor grad, Tensor log_sum"


def _check_options(operator: str, label_smoothing: float, z_loss: float) -> None:
    if not 0.0 <= label_smoothing <= 1.0:
        raise OptionError(f"{operator}: label_smoothing = {label_smoothing}", remedy="use a number from 0 to 1")
    if not 0.0 <= z_loss < float("inf"):
        raise OptionError(f"{operator}: z_loss = {z_loss}", remedy="use a finite number that is not negative")


def _losses(
    found: torch.Tensor, target: torch.Tensor, columns: int, ignore_index: int, label_smoothing: float, z_loss: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of each row, 0 where it is ignored, and its log sum."""
    loss = found[LOG_SUM] - found[PICKED]
    if label_smoothing:
        loss = (1.0 - label_smoothing) * loss + label_smoothing * (found[LOG_SUM] - found[SUM] / columns)
    if z_loss:
        loss = loss + z_loss * found[LOG_SUM].square()
    return loss.reshape(target.shape).masked_fill(target == ignore_index, 0.0), log_sum_of(found, target)


def _coefficients(
    grad: torch.Tensor, log_sum: torch.Tensor, target: torch.Tensor, columns: int, options: tuple[int, float, float]
) -> torch.Tensor:
    """Coefficients of ``logits_gradient``: the gradient is p (1 + 2 z_loss log_sum) - smoothed target, times grad."""
    ignore_index, smoothing, z_loss = options
    weight = grad.float().masked_fill(target == ignore_index, 0.0).reshape(-1)
    bend = (1.0 + 2.0 * z_loss * log_sum.reshape(-1)) if z_loss else 1.0
    slope = torch.where(weight == 0, 0.0, weight * bend)
    return torch.stack((torch.zeros_like(weight), slope, (smoothing - 1.0) * weight, -smoothing / columns * weight))


def _forward(
    logits: torch.Tensor, target: torch.Tensor, ignore_index: int = -100, label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    _fake(logits, target, ignore_index, label_smoothing, z_loss)
    found = statistics(logits, target, 1.0, summed=label_smoothing > 0)
    return _losses(found, target, logits.shape[-1], ignore_index, label_smoothing, z_loss)


def _like(target: torch.Tensor) -> torch.Tensor:
    return torch.empty(target.shape, dtype=torch.float32, device=target.device)


def _fake(
    logits: torch.Tensor, target: torch.Tensor, ignore_index: int = -100, label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    check_logits("cross_entropy", logits, "target", target)
    _check_options("cross_entropy", label_smoothing, z_loss)
    return _like(target), _like(target)


def _gradient(
    grad: torch.Tensor, log_sum: torch.Tensor, logits: torch.Tensor, target: torch.Tensor, ignore_index: int,
    label_smoothing: float, z_loss: float,
) -> torch.Tensor:  # fmt: skip
    options = (ignore_index, label_smoothing, z_loss)
    coefficients = _coefficients(grad, log_sum, target, logits.shape[-1], options)
    return gradient(logits, target, log_sum, coefficients, 1.0, curved=False, dtype=logits.dtype)


def _gradient_fake(
    grad: torch.Tensor, log_sum: torch.Tensor, logits: torch.Tensor, target: torch.Tensor, *options: Any
) -> torch.Tensor:
    return torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)


def _linear_forward(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int = -100,
    label_smoothing: float = 0.0, z_loss: float = 0.0, chunk_rows: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    _linear_fake(hidden, weight, target, ignore_index, label_smoothing, z_loss, chunk_rows)
    found = chunked_statistics(hidden, weight, target, 1.0, chunk_rows, summed=label_smoothing > 0)
    return _losses(found, target, weight.shape[0], ignore_index, label_smoothing, z_loss)


def _linear_fake(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int = -100,
    label_smoothing: float = 0.0, z_loss: float = 0.0, chunk_rows: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    check_hidden("linear_cross_entropy", hidden, weight, "target", target, chunk_rows)
    _check_options("linear_cross_entropy", label_smoothing, z_loss)
    return _like(target), _like(target)


def _linear_gradient(
    grad: torch.Tensor, log_sum: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor,
    ignore_index: int, label_smoothing: float, z_loss: float, chunk_rows: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    options = (ignore_index, label_smoothing, z_loss)
    coefficients = _coefficients(grad, log_sum, target, weight.shape[0], options)
    return chunked_gradients(hidden, weight, target, log_sum, coefficients, 1.0, chunk_rows, curved=False)


def _linear_gradient_fake(
    grad: torch.Tensor, log_sum: torch.Tensor, hidden: torch.Tensor, weight: torch.Tensor, *others: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (hidden, weight))  # type: ignore[return-value]


_GIVEN = "int ignore_index, float label_smoothing, float z_loss"
_gradient_operator = register_operator(
    "cross_entropy_backward",
    f"({_LOSS}, Tensor logits, Tensor target, {_GIVEN}) -> Tensor",
    _gradient,
    fake=_gradient_fake,
)
_linear_gradient_operator = register_operator(
    "linear_cross_entropy_backward",
    f"({_LOSS}, Tensor hidden, Tensor weight, Tensor target, {_GIVEN}, int chunk_rows) -> (Tensor, Tensor)",
    _linear_gradient,
    fake=_linear_gradient_fake,
)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    ctx.options = inputs[len(tensors) :]
    ctx.save_for_backward(output[1], *tensors)
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[Any, ...]:
    options = (*ctx.options, *(-100, 0.0, 0.0)[len(ctx.options) :])
    return _gradient_operator(grad, *ctx.saved_tensors, *options), None, None, None, None


def _linear_backward(ctx: Any, grad: torch.Tensor, _: Any) -> tuple[Any, ...]:
    options = (*ctx.options, *(-100, 0.0, 0.0, 0)[len(ctx.options) :])
    return *_linear_gradient_operator(grad, *ctx.saved_tensors, *options), None, None, None, None, None


_operator = register_operator("cross_entropy", SCHEMA, _forward, fake=_fake, backward=_backward, setup_context=_keep)
_linear_operator = register_operator(
    "linear_cross_entropy",
    LINEAR_SCHEMA,
    _linear_forward,
    fake=_linear_fake,
    backward=_linear_backward,
    setup_context=_keep,
)


def _reduced(operator: str, losses: torch.Tensor, target: torch.Tensor, ignore: int, reduction: str) -> torch.Tensor:
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return losses.sum() / (target != ignore).sum()
    raise OptionError(f"{operator}: reduction = {reduction!r}", remedy="use none, mean or sum")


def cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
) -> torch.Tensor:
    """-log softmax(logits)[target], smoothed, plus z_loss log(sum exp)^2; logits are read once a pass, in float32.

    Args:
        logits: (..., N) of float16, bfloat16 or float32; rows of any pitch.
        target: (...) of int64 or int32; a row whose target is ``ignore_index`` has loss and gradient 0, one whose
            target is no column has loss NaN.
        ignore_index: the target of rows that do not count.
        label_smoothing: the part of the target spread over all columns (arXiv 1512.00567).
        z_loss: the weight of the squared log sum (arXiv 2204.02311), part of the loss of each row.
        reduction: ``mean`` over the rows that count (NaN without any), ``sum``, or ``none``.

    Returns:
        A float32 scalar, or (...) float32. Differentiable once. Autocast changes nothing.

    Raises:
        OperandTypeError: another dtype.
        ShapeError: a target for other rows.
        DeviceMismatch: tensors on different devices.
        OptionError: a smoothing, weight or reduction out of range.
    """
    losses, _ = _operator(logits, target, ignore_index, label_smoothing, z_loss)
    return _reduced("cross_entropy", losses, target, ignore_index, reduction)


def linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: str = "mean",
    chunk_rows: int = 0,
) -> torch.Tensor:
    """``cross_entropy(hidden weight^T, target)``; some rows of the logits exist at a time, in float32.

    Args:
        hidden: (..., K) of float16, bfloat16 or float32.
        weight: (N, K) of the same dtype.
        target: as for ``cross_entropy``, like the other options.
        ignore_index: the target of rows that do not count.
        label_smoothing: the part of the target spread over all columns.
        z_loss: the weight of the squared log sum.
        reduction: ``mean``, ``sum`` or ``none``.
        chunk_rows: rows of logits that exist at a time; 0 for as many as 128 MiB hold, and at least 128.

    Returns:
        A float32 scalar, or (...) float32. Differentiable once: the backward pass makes the logits again, and sums the
        gradient of the weight in float32. Autocast changes nothing.

    Raises:
        OperandTypeError: another dtype, or two.
        ShapeError: shapes that do not fit.
        DeviceMismatch: tensors on different devices.
        OptionError: a smoothing, weight, reduction or number of rows out of range.
    """
    losses, _ = _linear_operator(hidden, weight, target, ignore_index, label_smoothing, z_loss, chunk_rows)
    return _reduced("linear_cross_entropy", losses, target, ignore_index, reduction)
