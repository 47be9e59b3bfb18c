"""Kernel parameters as bytes: layout of a launch's parameter buffer and the generated function that fills it.

Each parameter lies at its natural alignment (PTX ISA, kernel function parameters); a tensor map takes 128 bytes aligned
to 64. The driver receives an array of pointers into the buffer, as ``cuLaunchKernel`` takes it.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.lowering import (
    FUNCTIONS,
    KernelLaunch,
    Parameter,
    PointerParameter,
    ScalarArgument,
    ScalarParameter,
    TensorMapParameter,
)

from ..dtypes import SCALAR_CODES
from ..entry import Launcher
from ..errors import OptionError
from ..signature import Signature

TENSOR_MAP_BYTES = 128
_TENSOR_MAP_ALIGNMENT = 64
_CACHED_MAPS = 4096

Submit = Callable[..., None]
Encode = Callable[[TensorMapParameter, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]], bytes]


@dataclass(frozen=True)
class Layout:
    """Byte offset of each parameter of one launch, the buffer's size, and the struct format of everything but maps."""

    offsets: tuple[int, ...]
    size: int
    format: str


class Slot:
    """One parameter buffer with the pointer array into it; taken from a pool for the length of a launch."""

    def __init__(self, layout: Layout) -> None:
        self.memory = ctypes.create_string_buffer(layout.size + _TENSOR_MAP_ALIGNMENT)
        base = -ctypes.addressof(self.memory) % _TENSOR_MAP_ALIGNMENT
        self.view = memoryview(self.memory).cast("B")[base : base + layout.size]
        start = ctypes.addressof(self.memory) + base
        self.pointers = (ctypes.c_void_p * max(len(layout.offsets), 1))(*(start + offset for offset in layout.offsets))
        self.address = ctypes.addressof(self.pointers)


def layout_of(launch: KernelLaunch) -> Layout:
    """Where each parameter of a launch lies.

    Raises:
        OptionError: a number of a type that cannot be passed by value.
    """
    offsets, position, codes = [], 0, "="
    for parameter in launch.parameters:
        code, size, alignment = _shape_of(parameter)
        padding = -position % alignment
        offsets.append(position + padding)
        codes += (f"{padding}x" if padding else "") + code
        position += padding + size
    return Layout(tuple(offsets), max(position, 1), codes)


def _shape_of(parameter: Parameter) -> tuple[str, int, int]:
    if isinstance(parameter, TensorMapParameter):
        return f"{TENSOR_MAP_BYTES}s", TENSOR_MAP_BYTES, _TENSOR_MAP_ALIGNMENT
    if isinstance(parameter, PointerParameter):
        return "Q", 8, 8
    code = SCALAR_CODES.get(parameter.dtype)
    if code is None:
        raise OptionError(
            f"{parameter.name}: a number of type {parameter.dtype} cannot be passed by value",
            remedy="declare it float32, or pass it in a tensor of one element",
        )
    size = struct.calcsize("=" + code)
    return code, size, size


class MapCache:
    """Encoded tensor maps by address and sizes. Encoding is a pure function of them, so entries never grow stale."""

    def __init__(self, parameter: TensorMapParameter, encode: Encode) -> None:
        self._parameter = parameter
        self._encode = encode
        self.entries: dict[tuple[int, ...], bytes] = {}

    def add(self, key: tuple[int, ...], *fields: Any) -> bytes:
        """Encode for an address, dims, strides, box and element strides, and keep the bytes under ``key``."""
        if len(self.entries) >= _CACHED_MAPS:
            self.entries.clear()
        encoded = self._encode(self._parameter, *fields)
        self.entries[key] = encoded
        return encoded


def submitter(signature: Signature, encode: Encode, launch_one: Callable[[int], Submit]) -> Launcher:
    """A launcher that packs each launch of the plan and hands it on.

    ``launch_one(i)`` gives the function for the i-th launch, called with
    ``(gx, gy, gz, bx, by, bz, dynamic_shared, parameter_array_address)``. A launch with an empty grid is left out.
    """
    namespace: dict[str, Any] = {**FUNCTIONS}
    addressed = [i for i, a in enumerate(signature.plan.arguments) if not isinstance(a, ScalarArgument)]
    names = [f"_a{i}" for i in addressed] + [f"_p{i}" for i in addressed] + list(signature.values)
    pointer_of = {signature.plan.arguments[i].name: f"_p{i}" for i in addressed}
    lines = [f"def submit({', '.join(names)}):"]
    for index, launch in enumerate(signature.plan.launches):
        layout = layout_of(launch)
        namespace |= {
            f"_pool{index}": [],
            f"_slot{index}": lambda layout=layout: Slot(layout),
            f"_pack{index}": struct.Struct(layout.format).pack_into,
            f"_launch{index}": launch_one(index),
        }
        lines += _launch_lines(index, launch, pointer_of, namespace, encode)
    lines.append("    return None")
    exec(compile("\n".join(lines), f"<launch of {signature.plan.name}>", "exec"), namespace)
    function: Launcher = namespace["submit"]
    return function


def _launch_lines(
    index: int, launch: KernelLaunch, pointer_of: dict[str, str], namespace: dict[str, Any], encode: Encode
) -> list[str]:
    values, maps = [], []
    for number, parameter in enumerate(launch.parameters):
        if isinstance(parameter, PointerParameter):
            values.append(pointer_of[parameter.tensor])
        elif isinstance(parameter, ScalarParameter):
            values.append(f"({parameter.value.text})")
        else:
            name, pointer = f"_m{index}_{number}", pointer_of[parameter.tensor]
            cache = MapCache(parameter, encode)
            namespace |= {f"{name}_get": cache.entries.get, f"{name}_add": cache.add}
            maps += _map_lines(name, pointer, parameter)
            values.append(name)
    grid = ", ".join(f"({e.text})" for e in launch.grid)
    block = ", ".join(f"({e.text})" for e in launch.block)
    packed = "".join(f", {value}" for value in values)
    return [
        f"    _gx, _gy, _gz = {grid}",
        "    if _gx > 0 and _gy > 0 and _gz > 0:",
        *maps,
        f"        _s = _pool{index}.pop() if _pool{index} else _slot{index}()",
        f"        _pack{index}(_s.view, 0{packed})",
        f"        _launch{index}(_gx, _gy, _gz, {block}, {launch.dynamic_shared.text}, _s.address)",
        f"        _pool{index}.append(_s)",
    ]


def _map_lines(name: str, pointer: str, parameter: TensorMapParameter) -> list[str]:
    fields = (parameter.dims, parameter.strides, parameter.box, parameter.element_strides)
    varying = dict.fromkeys(f"({e.text}), " for field in fields for e in field if not e.constant)
    texts = ", ".join(f"({''.join(f'{e.text}, ' for e in field)})" for field in fields)
    return [
        f"        _key = ({pointer}, {''.join(varying)})",
        f"        {name} = {name}_get(_key) or {name}_add(_key, {pointer}, {texts})",
    ]
