"""The size variables of a matmul program, and what its access widths mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.dsl import language as T

from .symbols import counted

ITEM_BYTES = {
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}

SHORT_NAMES = {"float32": "f32", "int32": "i32", "float16": "f16", "bfloat16": "bf16", "int8": "i8"}


def short_dtype(dtype: str) -> str:
    """``f16`` for ``float16``, ``e4m3`` for ``float8_e4m3fn``."""
    return SHORT_NAMES.get(dtype) or dtype.removeprefix("float8_").removesuffix("fn")


def access_elements(access: str, dtype: str) -> int:
    """Elements of one global access: 1 for ``tma``, else the number of bytes that ``access`` spells."""
    return 1 if access == "tma" else int(access) // ITEM_BYTES[dtype]


@dataclass(frozen=True)
class GemmSymbols:
    """Shapes and strides of A, B and C over the size variables; ``pitch_*`` and ``stride_*`` are scalar parameters."""

    m: Any
    n: Any
    k: Any
    batch: Any
    batch_a: Any
    batch_b: Any
    shape_a: tuple[Any, Any, Any]
    shape_b: tuple[Any, Any, Any]
    shape_c: tuple[Any, Any, Any]
    strides_a: tuple[Any, Any, int]
    strides_b: tuple[Any, Any, int]
    strides_c: tuple[Any, Any, int]
    pitch_a: Any
    pitch_b: Any
    pitch_c: Any
    stride_a: Any
    stride_b: Any
    stride_c: Any


def gemm_symbols(
    dtype: str, out_dtype: str, transpose_a: bool, transpose_b: bool, load: str, store: str
) -> GemmSymbols:
    """The variables of one access class; an extent along which an operand is contiguous counts whole accesses."""
    read, write = access_elements(load, dtype), access_elements(store, out_dtype)
    m = counted("M", read if transpose_a else 1).extent
    n = counted("N", write if transpose_b else max(read, write)).extent
    k = counted("K", read if transpose_b or not transpose_a else 1).extent
    batch, batch_a, batch_b = T.dynamic("batch"), T.dynamic("batch_a"), T.dynamic("batch_b")
    pitch_a, pitch_b = counted("pitch_a", read, "int64"), counted("pitch_b", read, "int64")
    stride_a, stride_b = counted("stride_a", read, "int64"), counted("stride_b", read, "int64")
    pitch_c, stride_c = counted("pitch_c", write, "int64"), counted("stride_c", write, "int64")
    return GemmSymbols(
        m=m,
        n=n,
        k=k,
        batch=batch,
        batch_a=batch_a,
        batch_b=batch_b,
        shape_a=(batch_a, k, m) if transpose_a else (batch_a, m, k),
        shape_b=(batch_b, n, k) if transpose_b else (batch_b, k, n),
        shape_c=(batch, m, n),
        strides_a=(stride_a.extent, pitch_a.extent, 1),
        strides_b=(stride_b.extent, pitch_b.extent, 1),
        strides_c=(stride_c.extent, pitch_c.extent, 1),
        pitch_a=pitch_a.variable,
        pitch_b=pitch_b.variable,
        pitch_c=pitch_c.variable,
        stride_a=stride_a.variable,
        stride_b=stride_b.variable,
        stride_c=stride_c.variable,
    )


def kernel_name(
    unit: str,
    dtype: str,
    transpose_a: bool,
    transpose_b: bool,
    load: str,
    store: str,
    bias_dtype: str | None,
    activation: str | None,
) -> str:
    """The kernel's name in CUDA: it tells the unit, types, layouts and access widths chosen."""
    layout = ("t" if transpose_a else "n") + ("t" if transpose_b else "n")
    parts = ["gemm", unit, short_dtype(dtype), layout, f"load_{load}", f"store_{store}"]
    if bias_dtype:
        parts.append("bias")
    if activation:
        parts.append(activation)
    return "_".join(parts)
