"""Parameter values of an operator's call, as a command line gives them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import torch

from .errors import OptionError

_ALIASES = {
    "f16": "float16",
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "fp32": "float32",
    "float": "float32",
    "i8": "int8",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def merged(name: str, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """``defaults`` with ``given`` in place; texts become the type of the default (``none`` becomes None).

    Raises:
        OptionError: an unknown name, or a value of another type.
    """
    values = dict(defaults)
    for key, value in given.items():
        if key not in defaults:
            close = difflib.get_close_matches(key, defaults, n=1)
            raise OptionError(
                f"{name}: no parameter {key!r}",
                remedy=(f"did you mean {close[0]!r}? " if close else "") + f"its parameters are {', '.join(defaults)}",
            )
        values[key] = _converted(name, key, value, defaults[key])
    return values


def _converted(name: str, key: str, value: Any, default: Any) -> Any:
    text = str(value).lower()
    if isinstance(default, bool):
        if text in (*_TRUE, *_FALSE):
            return text in _TRUE
        raise OptionError(f"{name}: {key} = {value!r} is neither true nor false", remedy=f"use {key}=1 or {key}=0")
    if isinstance(default, int):
        if text.isdigit():
            return int(text)
        raise OptionError(f"{name}: {key} = {value!r} is no whole number", remedy=f"use a number, such as {default}")
    return None if text in ("none", "") else value


def torch_dtype(operator: str, name: str) -> torch.dtype:
    """The torch dtype of a name or its usual short form.

    Raises:
        OptionError: no such dtype.
    """
    found = getattr(torch, _ALIASES.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise OptionError(
            f"{operator}: unknown dtype {name!r}", remedy=f"use a torch dtype or one of {', '.join(_ALIASES)}"
        )
    return found
