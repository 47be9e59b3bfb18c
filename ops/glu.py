"""Gated activations, SwiGLU and GeGLU, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from tilewright.runtime import register_operator, short_name

from . import checks
from .errors import OptionError
from .glu_programs import glu_backward, glu_forward
from .kernels import call, kernel_of
from .rows import access_elements, as_rows, pitch, row_tile

PIECE = 1024  # columns of a block's piece: 8 elements a thread

_KINDS = {"none": "gelu", "tanh": "gelu_tanh"}

SCHEMA = "(Tensor gate, Tensor up, str kind) -> Tensor"
_BACKWARD_SCHEMA = "(Tensor dy, Tensor gate, Tensor up, str kind) -> (Tensor, Tensor)"


def bound_values(kind: str, *matrices: torch.Tensor) -> Mapping[str, Any]:
    """What the programs for matrices (M, N) are bound to."""
    access = access_elements(*matrices)
    tile = row_tile(min(PIECE, matrices[0].shape[1]), access)
    return {"kind": kind, "dtype": short_name(matrices[0].dtype), **asdict(tile)}


def _flat(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors as matrices; as one row where all are dense, so that any length has wide accesses."""
    if all(tensor.is_contiguous() for tensor in tensors) and tensors[0].numel() <= checks.LIMIT:
        return tuple(tensor.view(1, -1) for tensor in tensors)
    return tuple(as_rows(tensor) for tensor in tensors)


def _check(gate: torch.Tensor, up: torch.Tensor, kind: str) -> None:
    name = "swiglu" if kind == "silu" else "geglu"
    checks.require_float(name, gate=gate, up=up)
    checks.require_rows(name, "gate", gate)
    checks.require_like(name, "up", up, "gate", gate)
    checks.require_device(name, "gate", gate, up=up)
    if kind not in ("silu", *_KINDS.values()):
        raise OptionError(f"glu: unknown kind {kind!r}", remedy="use silu, gelu or gelu_tanh")


def _forward(gate: torch.Tensor, up: torch.Tensor, kind: str) -> torch.Tensor:
    y = _fake(gate, up, kind)
    if y.numel():
        one, other = _flat(gate, up)
        values = bound_values(kind, one, other)
        access = values["access"]
        kernel = kernel_of(glu_forward, **values)
        call(kernel, one, other, y.view(one.shape), pitch(one) // access, pitch(other) // access)
    return y


def _fake(gate: torch.Tensor, up: torch.Tensor, kind: str) -> torch.Tensor:
    _check(gate, up, kind)
    return torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)


def _gradients(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    dgate, dup = _gradients_fake(dy, gate, up, kind)
    if gate.numel():
        three = _flat(dy, gate, up)
        values = bound_values(kind, *three)
        pitches = (pitch(matrix) // values["access"] for matrix in three)
        shape = three[0].shape
        call(kernel_of(glu_backward, **values), *three, dgate.view(shape), dup.view(shape), *pitches)
    return dgate, dup


def _gradients_fake(
    dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, kind: str
) -> tuple[torch.Tensor, torch.Tensor]:
    return _fake(gate, up, kind), _fake(gate, up, kind)


_gradient_operator = register_operator("glu_backward", _BACKWARD_SCHEMA, _gradients, fake=_gradients_fake)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    gate, up, ctx.kind = inputs
    ctx.save_for_backward(gate, up)


def _backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
    dgate, dup = _gradient_operator(dy, *ctx.saved_tensors, ctx.kind)
    return dgate, dup, None


_operator = register_operator("glu", SCHEMA, _forward, fake=_fake, backward=_backward, setup_context=_keep)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) up, elementwise, computed in float32 (arXiv 2002.05202).

    Args:
        gate: (..., N) of float16, bfloat16 or float32; rows of any pitch, such as halves of one projection.
        up: like gate.

    Returns:
        y like gate, dense. Differentiable once. Autocast leaves the dtype as it is.

    Raises:
        OperandTypeError: another dtype, or two.
        ShapeError: rank 0, or different shapes.
        DeviceMismatch: tensors on different devices.
    """
    result: torch.Tensor = _operator(gate, up, "silu")
    return result


def geglu(gate: torch.Tensor, up: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """gelu(gate) up, elementwise, computed in float32 (arXiv 2002.05202).

    Args:
        gate: (..., N) of float16, bfloat16 or float32; rows of any pitch, such as halves of one projection.
        up: like gate.
        approximate: ``none`` for the error function, ``tanh`` for its approximation, as in torch.

    Returns:
        y like gate, dense. Differentiable once. Autocast leaves the dtype as it is.

    Raises:
        OperandTypeError: another dtype, or two.
        ShapeError: rank 0, or different shapes.
        DeviceMismatch: tensors on different devices.
        OptionError: another approximation.
    """
    if approximate not in _KINDS:
        raise OptionError(f"geglu: approximate = {approximate!r}", remedy=f"use one of {', '.join(_KINDS)}")
    result: torch.Tensor = _operator(gate, up, _KINDS[approximate])
    return result
