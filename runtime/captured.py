"""What a Python function reads besides its arguments: globals, closures, helpers, and how to see that they changed.

``Captured`` is compared by identity on each call, which costs tens of nanoseconds a name; only when an identity, or the
content of a container, differs is the whole content compared (``key``, from ``dsl.captured_state``).
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from tilewright.dsl import captured_state

_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_CONTAINERS = (list, dict, set)
_LIBRARY_FOLDERS = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_OURS = __name__.partition(".")[0]
_ABSENT = object()
_DEPTH = 8


@dataclass(frozen=True)
class _Global:
    """A name in a module's (or object's) dictionary and the value it had."""

    names: Mapping[str, Any]
    name: str
    value: Any


@dataclass(frozen=True)
class _Cell:
    """A closure cell and the value it had."""

    cell: CellType
    value: Any


class Captured:
    """The values that a function and its helpers read, at one moment.

    Attributes:
        key: hashable content; equal for two moments exactly when all values are equal.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._globals: list[_Global] = []
        self._cells: list[_Cell] = []
        for entry in _walk(function, set()):
            if isinstance(entry, _Global):
                self._globals.append(entry)
            else:
                self._cells.append(entry)
        values: list[Any] = [*(entry.value for entry in self._globals), *(entry.value for entry in self._cells)]
        self._mutable = [(value, freeze(value)) for value in values if _is_mutable(value)]
        self.key = captured_state(function)

    def unchanged(self) -> bool:
        """True when every name still has the same object, and every captured container the same content."""
        for entry in self._globals:
            if entry.names.get(entry.name, _ABSENT) is not entry.value:
                return False
        for cell in self._cells:
            if cell.cell.cell_contents is not cell.value:
                return False
        return all(freeze(value) == content for value, content in self._mutable)


def _walk(function: Callable[..., Any], seen: set[int]) -> Iterator[_Global | _Cell]:
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    names = set(_names(function.__code__))
    for cell in function.__closure__ or ():
        if _filled(cell):
            yield _Cell(cell, cell.cell_contents)
            yield from _walk(_helper(cell.cell_contents), seen)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        yield _Global(function.__globals__, name, value)
        yield from _walk(_helper(value), seen)
        if isinstance(value, ModuleType) and not is_library(value.__name__):
            yield from _module_names(value, names, seen)


def _module_names(module: ModuleType, names: set[str], seen: set[int]) -> Iterator[_Global | _Cell]:
    for name in sorted(names & vars(module).keys()):
        value = vars(module)[name]
        yield _Global(vars(module), name, value)
        yield from _walk(_helper(value), seen)


def _helper(value: Any) -> Any:
    """The function inside a decorated helper (``T.macro`` keeps it as ``orig_func``), unless a library defines it."""
    for attribute in ("orig_func", "__wrapped__"):
        inner = getattr(value, "__dict__", {}).get(attribute)
        if isinstance(inner, FunctionType):
            value = inner
    if isinstance(value, FunctionType) and is_library(value.__module__):
        return None
    return value


def is_library(module: str) -> bool:
    """True for modules of the standard library, of installed packages and of this package."""
    if module.partition(".")[0] == _OURS:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if not isinstance(file, str):
        return module in sys.builtin_module_names
    return file.startswith(_LIBRARY_FOLDERS) or f"{os.sep}site-packages{os.sep}" in file  # a second folder on the path


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _is_mutable(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_is_mutable(item) for item in value)
    return isinstance(value, (*_CONTAINERS, torch.Tensor, np.ndarray)) or _fields(value) is not None


def _fields(value: Any) -> MutableMapping[str, Any] | None:
    """The attributes of a plain object of the user's own class, such as a configuration."""
    if isinstance(value, type | FunctionType | BuiltinFunctionType | ModuleType) or is_library(type(value).__module__):
        return None
    fields = getattr(value, "__dict__", None)
    return fields if isinstance(fields, dict) else None


class Same:
    """An object that counts by identity, kept alive so that its identity is not reused."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _frozen_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ("array", value.shape, value.dtype.str, value.tobytes())
    return ("tensor", Same(value), 0 if value.is_inference() else value._version)


def freeze(value: Any, depth: int = 0) -> Any:
    """A hashable stand-in for a value's content; True, 1 and 1.0 differ, and so do 0.0 and -0.0.

    Plain objects of the user's classes count by their attributes, numpy arrays by their bytes, tensors by identity and
    number of writes, other hashable objects by equality, and what is left or deeper than eight levels by identity.
    """
    if isinstance(value, _SCALARS):
        return (type(value).__name__, value.hex() if isinstance(value, float) else value)
    if isinstance(value, torch.Tensor | np.ndarray):
        return _frozen_array(value)
    if depth > _DEPTH:
        return Same(value)
    inner = depth + 1
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(freeze(item, inner) for item in value))
    if isinstance(value, dict):
        return ("dict", tuple(sorted(((freeze(k, inner), freeze(v, inner)) for k, v in value.items()), key=repr)))
    if isinstance(value, set | frozenset):
        return ("set", tuple(sorted((freeze(item, inner) for item in value), key=repr)))
    fields = _fields(value)
    if fields is not None:
        return ("object", type(value), freeze(dict(fields), inner))
    return (type(value), value) if isinstance(value, Hashable) else Same(value)
