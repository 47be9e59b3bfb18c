"""Arguments of a kernel: the bytes of its parameters, and the memory that they make legal."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from .errors import LaunchError
from .ptx import Kernel, Parameter
from .tensor_map import TensorMap
from .view import ArrayLike, TensorLike, View, view_of

Range = tuple[int, int, str, bool]  # first and last-plus-one byte, name, whether it may be written


def memory_of(value: Any, name: str) -> View:
    """Where a tensor, or that of a tensor map, lies.

    Raises:
        LaunchError: no tensor, or not in CPU memory.
    """
    if isinstance(value, TensorMap):
        return value.view
    if getattr(value, "is_cuda", False):
        raise LaunchError(f"{name} lies on a GPU; the virtual GPU reads CPU memory", remedy="pass a CPU tensor")
    view = view_of(value)
    if view is None:
        raise LaunchError(f"{name} is not a tensor", values={"type": type(value).__name__})
    return view


def reach(value: Any, name: str) -> list[Range]:
    """The memory that a tensor makes legal: the hull of its view.

    Raises:
        LaunchError: no tensor, or not in CPU memory.
    """
    view = memory_of(value, name)
    return [(*view.hull, name, view.writable)]


def _scalar_bytes(value: int | float, p: Parameter, name: str) -> bytes:
    size = p.size
    try:
        if p.type in ("f32", "f64"):
            return struct.pack("<f" if size == 4 else "<d", value)
        if isinstance(value, float):
            if p.type in ("b32", "b64"):
                return struct.pack("<f" if size == 4 else "<d", value)
            raise LaunchError(f"{name} is a float where the kernel takes .{p.type}", values={name: value})
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    except (OverflowError, struct.error):
        raise LaunchError(f"{name} does not fit .{p.type}", values={name: value}) from None


def _one(value: Any, p: Parameter, name: str) -> tuple[bytes, list[Range]]:
    """The bytes of a parameter and the memory that it makes legal."""
    if isinstance(value, TensorMap):
        return value.pack(), reach(value, name)
    if isinstance(value, bytes):
        return value, []
    if isinstance(value, int | float):
        return _scalar_bytes(value, p, name), []
    if value is None:
        return bytes(p.size), []
    if isinstance(value, ArrayLike) and not isinstance(value, TensorLike) and value.shape == ():
        return _scalar_bytes(value.item(), p, name), []  # numpy scalar
    view = memory_of(value, name)
    return view.address.to_bytes(8, "little"), reach(value, name)


def pack(kernel: Kernel, args: Sequence[Any]) -> tuple[bytes, list[Range]]:
    """The parameter bytes of a launch, and the memory that its arguments make legal.

    Raises:
        LaunchError: the arguments do not fit the parameters.
    """
    if len(args) != len(kernel.parameters):
        raise LaunchError(
            f"the kernel takes {len(kernel.parameters)} arguments",
            values={"given": len(args), "parameters": ", ".join(f".{p.type} {p.name}" for p in kernel.parameters)},
        )
    params = bytearray(kernel.parameter_bytes)
    ranges: list[Range] = []
    for k, (p, arg) in enumerate(zip(kernel.parameters, args, strict=True)):
        name = f"argument {k}"
        data, memory = _one(arg, p, name)
        ranges += memory
        if len(data) != p.size:
            raise LaunchError(
                f"{name} has {len(data)} bytes where the kernel takes {p.size}",
                values={"parameter": f".{p.type} {p.name}"},
            )
        params[p.offset : p.offset + p.size] = data
    return bytes(params), ranges
