"""Log-probabilities of tokens and entropies, of logits or of hidden states, and gradients."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.runtime import register_operator

from .errors import OptionError
from .logits import (
    check_hidden,
    check_logits,
    chunked_gradients,
    chunked_statistics,
    gradient,
    log_sum_of,
    logprob_of,
    statistics,
)
from .logits_programs import SPREAD

SCHEMA = "(Tensor logits, Tensor tokens, float temperature=1.) -> (Tensor, Tensor, Tensor)"
LINEAR_SCHEMA = (
    "(Tensor hidden, Tensor weight, Tensor tokens, float temperature=1., int chunk_rows=0) -> (Tensor, Tensor, Tensor)"
)
_GIVEN = "Tensor? dlogprob, Tensor? dentropy, Tensor entropy, Tensor log_sum"

Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _check_temperature(operator: str, temperature: float) -> None:
    if not 0.0 < temperature < float("inf"):
        raise OptionError(f"{operator}: temperature = {temperature}", remedy="use a finite number above 0")


def _results(found: torch.Tensor, tokens: torch.Tensor) -> Three:
    return logprob_of(found, tokens), found[SPREAD].reshape(tokens.shape).clone(), log_sum_of(found, tokens).clone()


def _like(tokens: torch.Tensor) -> Three:
    return tuple(torch.empty(tokens.shape, dtype=torch.float32, device=tokens.device) for _ in range(3))  # type: ignore[return-value]


def _coefficients(
    dlogprob: torch.Tensor | None, dentropy: torch.Tensor | None, entropy: torch.Tensor, scale: float
) -> torch.Tensor:
    """Coefficients of ``logits_gradient``: dlogprob (hit - p) - dentropy p (log p + entropy), times the scale."""
    none = torch.zeros_like(entropy)
    of_token = none if dlogprob is None else dlogprob.float() * scale
    of_entropy = none if dentropy is None else dentropy.float() * scale
    slope = -of_token - torch.where(of_entropy == 0, 0.0, of_entropy * entropy)
    return torch.stack([part.reshape(-1) for part in (-of_entropy, slope, of_token, none)])


def _forward(logits: torch.Tensor, tokens: torch.Tensor, temperature: float = 1.0) -> Three:
    _fake(logits, tokens, temperature)
    return _results(statistics(logits, tokens, 1.0 / temperature, spread=True), tokens)


def _fake(logits: torch.Tensor, tokens: torch.Tensor, temperature: float = 1.0) -> Three:
    check_logits("token_logprobs", logits, "tokens", tokens)
    _check_temperature("token_logprobs", temperature)
    return _like(tokens)


def _gradient(
    dlogprob: torch.Tensor | None, dentropy: torch.Tensor | None, entropy: torch.Tensor, log_sum: torch.Tensor,
    logits: torch.Tensor, tokens: torch.Tensor, temperature: float,
) -> torch.Tensor:  # fmt: skip
    scale, curved = 1.0 / temperature, dentropy is not None
    coefficients = _coefficients(dlogprob, dentropy, entropy, scale)
    return gradient(logits, tokens, log_sum, coefficients, scale, curved=curved, dtype=logits.dtype)


def _gradient_fake(
    dlogprob: Any, dentropy: Any, entropy: torch.Tensor, log_sum: torch.Tensor, logits: torch.Tensor, *others: Any
) -> torch.Tensor:
    return torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)


def _linear_forward(
    hidden: torch.Tensor, weight: torch.Tensor, tokens: torch.Tensor, temperature: float = 1.0, chunk_rows: int = 0
) -> Three:
    _linear_fake(hidden, weight, tokens, temperature, chunk_rows)
    return _results(chunked_statistics(hidden, weight, tokens, 1.0 / temperature, chunk_rows, spread=True), tokens)


def _linear_fake(
    hidden: torch.Tensor, weight: torch.Tensor, tokens: torch.Tensor, temperature: float = 1.0, chunk_rows: int = 0
) -> Three:
    check_hidden("linear_token_logprobs", hidden, weight, "tokens", tokens, chunk_rows)
    _check_temperature("linear_token_logprobs", temperature)
    return _like(tokens)


def _linear_gradient(
    dlogprob: torch.Tensor | None, dentropy: torch.Tensor | None, entropy: torch.Tensor, log_sum: torch.Tensor,
    hidden: torch.Tensor, weight: torch.Tensor, tokens: torch.Tensor, temperature: float, chunk_rows: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    scale, curved = 1.0 / temperature, dentropy is not None
    coefficients = _coefficients(dlogprob, dentropy, entropy, scale)
    return chunked_gradients(hidden, weight, tokens, log_sum, coefficients, scale, chunk_rows, curved=curved)


def _linear_gradient_fake(
    dlogprob: Any, dentropy: Any, entropy: Any, log_sum: Any, hidden: torch.Tensor, weight: torch.Tensor, *others: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (hidden, weight))  # type: ignore[return-value]


_gradient_operator = register_operator(
    "token_logprobs_backward",
    f"({_GIVEN}, Tensor logits, Tensor tokens, float temperature) -> Tensor",
    _gradient,
    fake=_gradient_fake,
)
_linear_gradient_operator = register_operator(
    "linear_token_logprobs_backward",
    f"({_GIVEN}, Tensor hidden, Tensor weight, Tensor tokens, float temperature, int chunk_rows) -> (Tensor, Tensor)",
    _linear_gradient,
    fake=_linear_gradient_fake,
)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Three) -> None:
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    ctx.options = inputs[len(tensors) :]
    ctx.save_for_backward(output[1], output[2], *tensors)
    ctx.mark_non_differentiable(output[2])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dlogprob: torch.Tensor | None, dentropy: torch.Tensor | None, _: Any) -> tuple[Any, ...]:
    options = (*ctx.options, *(1.0,)[len(ctx.options) :])
    return _gradient_operator(dlogprob, dentropy, *ctx.saved_tensors, *options), None, None


def _linear_backward(ctx: Any, dlogprob: torch.Tensor | None, dentropy: torch.Tensor | None, _: Any) -> tuple[Any, ...]:
    options = (*ctx.options, *(1.0, 0)[len(ctx.options) :])
    return *_linear_gradient_operator(dlogprob, dentropy, *ctx.saved_tensors, *options), None, None, None


_operator = register_operator("token_logprobs", SCHEMA, _forward, fake=_fake, backward=_backward, setup_context=_keep)
_linear_operator = register_operator(
    "linear_token_logprobs",
    LINEAR_SCHEMA,
    _linear_forward,
    fake=_linear_fake,
    backward=_linear_backward,
    setup_context=_keep,
)


def token_logprobs(
    logits: torch.Tensor, tokens: torch.Tensor, temperature: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each token under softmax(logits / temperature), and the entropy; logits are read once a pass.

    Args:
        logits: (..., N) of float16, bfloat16 or float32; rows of any pitch.
        tokens: (...) of int64 or int32; one that is no column has log-probability NaN.
        temperature: above 0.

    Returns:
        logprob and entropy (nats; 0 log 0 is 0), both (...) float32. Differentiable once. Autocast changes nothing.

    Raises:
        OperandTypeError: another dtype.
        ShapeError: tokens for other rows.
        DeviceMismatch: tensors on different devices.
        OptionError: a temperature that is not above 0.
    """
    logprob, entropy, _ = _operator(logits, tokens, temperature)
    return logprob, entropy


def linear_token_logprobs(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    tokens: torch.Tensor,
    temperature: float = 1.0,
    chunk_rows: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``token_logprobs(hidden weight^T, tokens, temperature)``; some rows of the logits exist at a time, in float32.

    Args:
        hidden: (..., K) of float16, bfloat16 or float32.
        weight: (N, K) of the same dtype.
        tokens: (...) of int64 or int32; one that is no row of the weight has log-probability NaN.
        temperature: above 0.
        chunk_rows: rows of logits that exist at a time; 0 for as many as 128 MiB hold, and at least 128.

    Returns:
        logprob and entropy, both (...) float32. Differentiable once: the backward pass makes the logits again, and sums
        the gradient of the weight in float32. Autocast changes nothing.

    Raises:
        OperandTypeError: another dtype, or two.
        ShapeError: shapes that do not fit.
        DeviceMismatch: tensors on different devices.
        OptionError: a temperature that is not above 0, or a negative number of rows.
    """
    logprob, entropy, _ = _linear_operator(hidden, weight, tokens, temperature, chunk_rows)
    return logprob, entropy
