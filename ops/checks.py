"""Argument checks that several operators share; each error names the operator, the argument and what was seen."""

from __future__ import annotations

import torch

from tilewright.runtime import short_name

from .errors import DeviceMismatch, OperandTypeError, ShapeError

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
LIMIT = 2**31 - 1  # sizes are 32-bit in the kernels; offsets are 64-bit


def require_float(operator: str, **tensors: torch.Tensor | None) -> None:
    """Refuse tensors that are not float16, bfloat16 or float32.

    Raises:
        OperandTypeError: a tensor of another dtype.
    """
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype not in FLOATS:
            raise OperandTypeError(
                f"{operator}: {name} has dtype {short_name(tensor.dtype)}",
                remedy=f"convert {name} to one of {', '.join(map(short_name, FLOATS))}",
            )


def require_like(operator: str, name: str, tensor: torch.Tensor, other: str, model: torch.Tensor) -> None:
    """Refuse a tensor whose shape or dtype is not that of ``model``.

    Raises:
        ShapeError: another shape.
        OperandTypeError: another dtype.
    """
    if tensor.shape != model.shape:
        raise ShapeError(
            f"{operator}: {name} does not have the shape of {other}",
            values={name: tuple(tensor.shape), other: tuple(model.shape)},
            remedy=f"pass {name} of shape {tuple(model.shape)}; nothing is broadcast",
        )
    if tensor.dtype != model.dtype:
        raise OperandTypeError(
            f"{operator}: {name} is {short_name(tensor.dtype)}, {other} is {short_name(model.dtype)}",
            remedy=f"convert one of them, such as {name}.to({other}.dtype)",
        )


def require_rows(operator: str, name: str, tensor: torch.Tensor, most: int | None = None) -> None:
    """Refuse a tensor without a last dimension, or with sizes beyond what the kernels count.

    Raises:
        ShapeError: rank 0, more than ``most`` columns, or more than 2^31 - 1 rows.
    """
    if tensor.dim() == 0:
        raise ShapeError(f"{operator}: {name} has rank 0, it needs a last dimension", remedy=f"pass {name}[None]")
    columns = tensor.shape[-1]
    if most is not None and columns > most:
        raise ShapeError(
            f"{operator}: {name} has {columns} columns, at most {most} fit the registers of a block",
            values={name: tuple(tensor.shape)},
            remedy="split the last dimension",
        )
    if tensor.numel() > LIMIT * max(1, columns) or columns > LIMIT:
        raise ShapeError(
            f"{operator}: {name} has more than {LIMIT} rows or columns",
            values={name: tuple(tensor.shape)},
            remedy="call it on parts",
        )


def require_vector(operator: str, name: str, vector: torch.Tensor | None, length: int) -> None:
    """Refuse a parameter vector of another shape than (length,).

    Raises:
        ShapeError: another rank or length.
    """
    if vector is not None and tuple(vector.shape) != (length,):
        raise ShapeError(
            f"{operator}: {name} has shape {tuple(vector.shape)}, the last dimension of x is {length}",
            remedy=f"pass {name} of shape ({length},)",
        )


def require_device(operator: str, first: str, model: torch.Tensor, **tensors: torch.Tensor | None) -> None:
    """Refuse tensors on another device than the first.

    Raises:
        DeviceMismatch: a tensor on another device.
    """
    for name, tensor in tensors.items():
        if tensor is not None and tensor.device != model.device:
            raise DeviceMismatch(
                f"{operator}: {first} is on {model.device}, {name} on {tensor.device}",
                remedy=f"move one of them, such as {name}.to({first}.device)",
            )
