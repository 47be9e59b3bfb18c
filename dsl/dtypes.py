"""Dtype names: those a kernel may use, and what common other spellings mean."""

from __future__ import annotations

import difflib
import functools
import re
from typing import Any

from ._tilelang import tvm

_INTEGERS = ("bool", "int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "bfloat16", "tfloat32", "float32", "float64")
_SMALL = (
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "float4_e2m1_unpacked",
)  # fmt: skip
_OTHER = ("handle", "int1", "int2", "uint1", "uint2")
_ALIASES = {
    "half": "float16", "fp16": "float16", "f16": "float16", "bf16": "bfloat16", "float": "float32", "fp32": "float32",
    "f32": "float32", "single": "float32", "double": "float64", "fp64": "float64", "f64": "float64", "int": "int32",
    "i32": "int32", "long": "int64", "i64": "int64", "i8": "int8", "u8": "uint8", "char": "int8", "tf32": "tfloat32",
    "fp8": "float8_e4m3fn", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}  # fmt: skip


def dtype_name(dtype: Any) -> str:
    """The name of a TIR dtype; those that TIR registers as custom types (``tfloat32``) under their own name."""
    return re.sub(r"^custom\[(\w+)\]\d*", r"\1", str(dtype))


def is_known(dtype: str) -> bool:
    """Whether a TIR dtype, vector lanes aside, is one that exists."""
    base = re.sub(r"x\d+$", "", dtype)
    return base in _INTEGERS or base in _FLOATS or base in _SMALL or base in _OTHER


def suggestion(name: str) -> str:
    """The dtype that another spelling means, or an empty text."""
    lowered = name.lower().removeprefix("torch.")
    if lowered in _ALIASES:
        return _ALIASES[lowered]
    close = difflib.get_close_matches(lowered, (*_INTEGERS, *_FLOATS, *_SMALL), n=1)
    return close[0] if close else ""


def accepted_names() -> str:
    """The names to list in a message."""
    return ", ".join((*_FLOATS, "float8_e4m3fn", "float8_e5m2", *_INTEGERS))


def parsed(dtype: str) -> Any:
    """The TIR dtype of a name."""
    return tvm.DataType(re.sub(r"^tfloat32", "custom[tfloat32]", dtype))


@functools.cache
def bits(dtype: str) -> int:
    """Bits of one element."""
    element = parsed(dtype)
    return int(element.bits) * max(1, int(element.lanes))


def is_fp8(dtype: str) -> bool:
    """Whether a dtype is an eight-bit float."""
    return dtype.startswith("float8")
