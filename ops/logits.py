"""Launches that losses over rows of logits share, on whole logits or on pieces made from hidden states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch

from tilewright.runtime import short_name

from . import checks
from .errors import OperandTypeError, OptionError, ShapeError
from .gemm import gemm
from .kernels import call, kernel_of
from .logits_programs import LOG_SUM, PICKED, logits_gradient, logits_statistics
from .rows import access_elements, as_rows, pitch, row_tile

_PIECE = 4096  # columns of a row that a block takes at a time
_GRADIENT_PIECE = 1024
_CHUNK = 1 << 25  # logits that exist at a time where they are made from hidden states: 128 MiB of float32


def check_logits(operator: str, logits: torch.Tensor, index: str, target: torch.Tensor) -> None:
    """Refuse logits (..., N) and indices (...) that do not fit.

    Raises:
        OperandTypeError: logits that are no floats, or indices other than int32 and int64.
        ShapeError: other shapes, or no columns.
        DeviceMismatch: tensors on different devices.
    """
    checks.require_float(operator, logits=logits)
    checks.require_rows(operator, "logits", logits)
    _check_index(operator, "logits", logits, index, target)
    if logits.shape[-1] == 0 and target.numel():
        raise ShapeError(f"{operator}: logits has no columns", remedy="pass logits with a vocabulary")


def check_hidden(
    operator: str, hidden: torch.Tensor, weight: torch.Tensor, index: str, target: torch.Tensor, chunk_rows: int
) -> None:
    """The same for hidden states (..., K) and the weight (N, K) that makes logits of them.

    Raises:
        OperandTypeError: tensors that are no floats, or of two dtypes; indices other than int32 and int64.
        ShapeError: other shapes, or no columns.
        DeviceMismatch: tensors on different devices.
        OptionError: a negative number of rows.
    """
    checks.require_float(operator, hidden=hidden, weight=weight)
    checks.require_rows(operator, "hidden", hidden)
    checks.require_device(operator, "hidden", hidden, weight=weight)
    _check_index(operator, "hidden", hidden, index, target)
    if weight.dim() != 2 or weight.shape[1] != hidden.shape[-1] or 0 in weight.shape:
        raise ShapeError(
            f"{operator}: weight is not (N, K) for hidden (..., K)",
            values={"hidden": tuple(hidden.shape), "weight": tuple(weight.shape)},
            remedy="pass the weight as torch's Linear stores it",
        )
    if weight.dtype != hidden.dtype:
        raise OperandTypeError(
            f"{operator}: weight is {short_name(weight.dtype)}, hidden is {short_name(hidden.dtype)}",
            remedy="convert one, such as weight.to(hidden.dtype)",
        )
    if chunk_rows < 0:
        raise OptionError(f"{operator}: chunk_rows = {chunk_rows} is below zero", remedy="use 0 for the default")


def _check_index(operator: str, first: str, model: torch.Tensor, index: str, target: torch.Tensor) -> None:
    if target.dtype not in (torch.int32, torch.int64):
        raise OperandTypeError(
            f"{operator}: {index} has dtype {short_name(target.dtype)}", remedy=f"pass {index} as int64 or int32"
        )
    if target.shape != model.shape[:-1]:
        raise ShapeError(
            f"{operator}: {index} has shape {tuple(target.shape)}, the rows of {first} are {tuple(model.shape[:-1])}",
            remedy=f"pass an index for each row of {first}",
        )
    checks.require_device(operator, first, model, **{index: target})


def statistics_values(x: torch.Tensor, index: torch.dtype, spread: bool, summed: bool) -> Mapping[str, Any]:
    """What the statistics of a matrix x (M, N) are bound to."""
    tile = row_tile(min(_PIECE, x.shape[1]), access_elements(x))
    types = {"dtype": short_name(x.dtype), "index_dtype": short_name(index)}
    return {**types, "spread": spread, "summed": summed, **asdict(tile)}


def statistics(
    logits: torch.Tensor, target: torch.Tensor, scale: float, *, spread: bool = False, summed: bool = False
) -> torch.Tensor:
    """Statistics (4, M) of the rows of logits (..., N), as ``logits_statistics`` says."""
    found = torch.empty((4, target.numel()), dtype=torch.float32, device=logits.device)
    if target.numel():
        rows = as_rows(logits)
        values = statistics_values(rows, target.dtype, spread, summed)
        indices = target.reshape(-1).contiguous()
        call(kernel_of(logits_statistics, **values), rows, indices, found, scale, pitch(rows) // values["access"])
    return found


def gradient(
    logits: torch.Tensor, target: torch.Tensor, log_sum: torch.Tensor, coefficients: torch.Tensor, scale: float,
    *, curved: bool, dtype: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    """The gradient of logits (..., N), as ``logits_gradient`` says, dense and of ``dtype``."""
    dx = torch.empty(logits.shape, dtype=dtype, device=logits.device)
    if dx.numel():
        rows = as_rows(logits)
        tile = row_tile(min(_GRADIENT_PIECE, rows.shape[1]), access_elements(rows))
        types = {
            "dtype": short_name(rows.dtype),
            "out_dtype": short_name(dtype),
            "index_dtype": short_name(target.dtype),
        }
        kernel = kernel_of(logits_gradient, **types, curved=curved, **asdict(tile))
        call(
            kernel, rows, target.reshape(-1).contiguous(), log_sum.reshape(-1).contiguous(), coefficients,
            dx.view(rows.shape), scale, pitch(rows) // tile.access,
        )  # fmt: skip
    return dx


def _chunks(hidden: torch.Tensor, weight: torch.Tensor, chunk_rows: int) -> Iterator[slice]:
    rows = chunk_rows or max(128, _CHUNK // weight.shape[0] // 128 * 128)
    return (slice(first, first + rows) for first in range(0, hidden.shape[0], rows))


def _logits(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return gemm(hidden, weight.mT, None, None, torch.float32)


def chunked_statistics(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, scale: float, chunk_rows: int, **which: bool
) -> torch.Tensor:
    """Statistics (4, M) of hidden weight^T, of which ``chunk_rows`` rows exist at a time, in float32."""
    rows, flat = as_rows(hidden), target.reshape(-1)
    found = [
        statistics(_logits(rows[part], weight), flat[part], scale, **which)
        for part in _chunks(rows, weight, chunk_rows)
    ]
    return torch.cat([*found, torch.empty((4, 0), dtype=torch.float32, device=hidden.device)], 1)


def chunked_gradients(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, log_sum: torch.Tensor,
    coefficients: torch.Tensor, scale: float, chunk_rows: int, *, curved: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Gradients of hidden and weight; logits are made once more, and that of the weight is summed in float32."""
    rows, flat, sums = as_rows(hidden), target.reshape(-1), log_sum.reshape(-1)
    dhidden = torch.empty(rows.shape, dtype=hidden.dtype, device=hidden.device)
    dweight = torch.zeros(weight.shape, dtype=torch.float32, device=hidden.device)
    for part in _chunks(rows, weight, chunk_rows):
        logits, own = _logits(rows[part], weight), coefficients[:, part].contiguous()
        slopes = gradient(logits, flat[part], sums[part], own, scale, curved=curved, dtype=hidden.dtype)
        dhidden[part] = gemm(slopes, weight)
        dweight += gemm(slopes.mT, rows[part], None, None, torch.float32)
    return dhidden.view(hidden.shape), dweight.to(weight.dtype)


def log_sum_of(found: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Log sums in the shape of the indices."""
    return found[LOG_SUM].reshape(target.shape)


def logprob_of(found: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of the indices, in their shape."""
    return (found[PICKED] - found[LOG_SUM]).reshape(target.shape)
