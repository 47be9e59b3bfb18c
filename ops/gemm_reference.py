"""Matmul by torch: the definition that kernels are compared with, and torch's own result in the same types."""

from __future__ import annotations

import torch
from torch.nn import functional

_ACTIVATIONS = {"relu": torch.relu, "gelu": functional.gelu, "silu": functional.silu}
_WIDE = {torch.int8: torch.int32, torch.float8_e4m3fn: torch.float32, torch.float8_e5m2: torch.float32}


def epilogue(c: torch.Tensor, bias: torch.Tensor | None, activation: str | None) -> torch.Tensor:
    """activation(c + bias) in the type of ``c``."""
    if bias is not None:
        c = c + bias.to(c.dtype)
    return c if activation is None else _ACTIVATIONS[activation](c)


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The result in float64 (int64 for int8), not rounded to ``out_dtype``."""
    wide = torch.int64 if a.dtype == torch.int8 else torch.float64
    return epilogue(a.to(wide) @ b.to(wide), bias, activation)


def baseline(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """What torch computes with the operands' own types, step by step; float32 as tf32 where torch's settings say so.

    tf32 keeps the upper 10 bits of the fraction, as the matrix units read them (PTX ISA, "Alternate Floating-Point").
    """
    wide = _WIDE.get(a.dtype, a.dtype)
    if a.dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision == "tf32":
        a, b = ((x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32) for x in (a, b))
    c = a.to(wide) @ b.to(wide)
    result = c.to(out_dtype or (torch.bfloat16 if a.dtype.itemsize == 1 and a.is_floating_point() else c.dtype))
    return epilogue(result, bias, activation)
