"""Element types: TileLang's names, torch's dtypes, and the struct codes of numbers passed by value."""

from __future__ import annotations

import torch

from .errors import ArgumentError

_ALIASES = {"tfloat32": "float32", "float8_e4m3": "float8_e4m3fn", "float8_e8m0fnu": "float8_e8m0fnu"}

# struct module codes of device parameters passed by value
SCALAR_CODES = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}


def torch_dtype(name: str, argument: str) -> torch.dtype:
    """The torch dtype of a TileLang element type.

    Raises:
        ArgumentError: torch has no such type (``argument`` names the tensor).
    """
    dtype = getattr(torch, _ALIASES.get(name, name), None)
    if not isinstance(dtype, torch.dtype):
        raise ArgumentError(
            f"{argument}: torch has no element type {name}",
            remedy="declare the parameter with a type that torch can hold, such as uint8 for packed values",
        )
    return dtype


def short_name(dtype: torch.dtype) -> str:
    """``float16`` for ``torch.float16``."""
    return str(dtype).removeprefix("torch.")
