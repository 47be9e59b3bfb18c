"""The records of cross-entropy and token log-probabilities, of logits and of hidden states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from tilewright.dsl import KernelFactory

from .cross_entropy import LINEAR_SCHEMA as LINEAR_ENTROPY_SCHEMA
from .cross_entropy import SCHEMA as ENTROPY_SCHEMA
from .cross_entropy import cross_entropy, linear_cross_entropy
from .logits import statistics_values
from .logits_programs import logits_statistics
from .records import Arguments, Make, row_record
from .token_logprobs import LINEAR_SCHEMA as LINEAR_TOKENS_SCHEMA
from .token_logprobs import SCHEMA as TOKENS_SCHEMA
from .token_logprobs import linear_token_logprobs, token_logprobs

_SIZES: Mapping[str, Any] = {"m": 4096, "n": 32000, "dtype": "float16"}


def _rows(index: str, extra: tuple[str, ...], values: Mapping[str, Any], dtype: torch.dtype, make: Make) -> Arguments:
    m, n = values["m"], values["n"]
    named: Arguments = {"logits": make((m, n), dtype)}
    if "k" in values:
        named = {"hidden": make((m, values["k"]), dtype), "weight": make((n, values["k"]), dtype)}
    return {**named, index: make((m,), torch.int64, below=n), **{name: values[name] for name in extra}}


def _entropy_arguments(values: Mapping[str, Any], dtype: torch.dtype, make: Make) -> Arguments:
    return _rows("target", ("label_smoothing", "z_loss"), values, dtype, make)


def _token_arguments(values: Mapping[str, Any], dtype: torch.dtype, make: Make) -> Arguments:
    return _rows("tokens", ("temperature",), values, dtype, make)


def _logits_of(arguments: Arguments) -> torch.Tensor:
    """The logits that the statistics read; those of hidden states are float32."""
    if "logits" in arguments:
        return arguments["logits"]  # type: ignore[no-any-return]
    shape = (arguments["hidden"].shape[0], arguments["weight"].shape[0])
    return torch.empty(shape, dtype=torch.float32, device="meta")


def _program(arguments: Arguments) -> tuple[KernelFactory, Mapping[str, Any]]:
    spread = "tokens" in arguments
    summed = arguments.get("label_smoothing", 0.0) > 0
    return logits_statistics, statistics_values(_logits_of(arguments), torch.int64, spread, summed)


def _entropy(
    wide: torch.dtype | None, logits: torch.Tensor, target: torch.Tensor, label_smoothing: float, z_loss: float
) -> torch.Tensor:
    logits = logits.to(wide or logits.dtype)
    loss = functional.cross_entropy(logits, target, label_smoothing=label_smoothing)
    return loss + z_loss * logits.logsumexp(-1).square().mean()


def _linear_entropy(
    wide: torch.dtype | None, hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, **options: float
) -> torch.Tensor:
    own = wide or hidden.dtype
    return _entropy(wide, hidden.to(own) @ weight.to(own).T, target, **options)


def _logprobs(
    wide: torch.dtype | None, logits: torch.Tensor, tokens: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    logs = torch.log_softmax(logits.to(wide or logits.dtype) / temperature, -1)
    return logs.gather(-1, tokens[..., None])[..., 0], -(logs.exp() * logs).sum(-1)


def _linear_logprobs(
    wide: torch.dtype | None, hidden: torch.Tensor, weight: torch.Tensor, tokens: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    own = wide or hidden.dtype
    return _logprobs(wide, hidden.to(own) @ weight.to(own).T, tokens, temperature)


_SAMPLES: tuple[Mapping[str, Any], ...] = (
    {"m": 5, "n": 1000},
    {"m": 3, "n": 77, "dtype": "bfloat16"},
    {"m": 1, "n": 1, "dtype": "float32"},
)
_HIDDEN: Mapping[str, Any] = {"k": 4096}
_HIDDEN_SAMPLES: tuple[Mapping[str, Any], ...] = ({"m": 5, "n": 96, "k": 32}, {"m": 1, "n": 2, "k": 1})
_ENTROPY_OPTIONS = {"label_smoothing": 0.0, "z_loss": 0.0}

CROSS_ENTROPY = row_record(
    "cross_entropy",
    "-log softmax(logits)[target], smoothed, with z-loss",
    ENTROPY_SCHEMA,
    cross_entropy,
    parameters={**_SIZES, **_ENTROPY_OPTIONS},
    samples=({**_SAMPLES[0], "label_smoothing": 0.1, "z_loss": 1e-3}, *_SAMPLES[1:]),
    arguments=_entropy_arguments,
    program=_program,
    definition=_entropy,
)
LINEAR_CROSS_ENTROPY = row_record(
    "linear_cross_entropy",
    "cross_entropy(hidden weight^T, target) without whole logits",
    LINEAR_ENTROPY_SCHEMA,
    linear_cross_entropy,
    parameters={**_SIZES, **_HIDDEN, **_ENTROPY_OPTIONS},
    samples=_HIDDEN_SAMPLES,
    arguments=_entropy_arguments,
    program=_program,
    definition=_linear_entropy,
)
TOKEN_LOGPROBS = row_record(
    "token_logprobs",
    "log-probability of each token, and the entropy",
    TOKENS_SCHEMA,
    token_logprobs,
    parameters={**_SIZES, "temperature": 1.0},
    samples=({**_SAMPLES[0], "temperature": 0.7}, *_SAMPLES[1:]),
    arguments=_token_arguments,
    program=_program,
    definition=_logprobs,
)
LINEAR_TOKEN_LOGPROBS = row_record(
    "linear_token_logprobs",
    "token_logprobs(hidden weight^T, tokens) without whole logits",
    LINEAR_TOKENS_SCHEMA,
    linear_token_logprobs,
    parameters={**_SIZES, **_HIDDEN, "temperature": 1.0},
    samples=_HIDDEN_SAMPLES,
    arguments=_token_arguments,
    program=_program,
    definition=_linear_logprobs,
)
