"""The record of rotary position embedding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.dsl import KernelFactory

from .records import Arguments, Make, row_record
from .rope import SCHEMA, bound_values, rope
from .rope_program import rope_rotate


def _arguments(values: Mapping[str, Any], dtype: torch.dtype, make: Make) -> Arguments:
    tokens, head = (values["batch"], values["length"]), values["head"]
    angles = make((values["length"], values["rotary"] // 2), torch.float32)
    return {
        "q": make((*tokens, values["heads"], head), dtype),
        "k": make((*tokens, values["kv_heads"], head), dtype),
        "cos": angles.cos(),
        "sin": angles.sin(),
        "interleaved": values["interleaved"],
    }


def _program(arguments: Arguments) -> tuple[KernelFactory, Mapping[str, Any]]:
    return rope_rotate, bound_values(arguments["q"], arguments["cos"], arguments["interleaved"], False, False)


def _definition(wide: torch.dtype | None, q: Any, k: Any, cos: Any, sin: Any, interleaved: bool = False) -> Any:
    return tuple(turned(x.to(wide or x.dtype), cos, sin, interleaved) for x in (q, k))


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """Heads (B, S, H, D) turned by tables (S, R / 2) or (B, S, R / 2), in the type of x."""
    half = cos.shape[-1]
    c, s = (table.to(x.dtype).unsqueeze(-2) for table in (cos, sin))
    part, rest = x[..., : 2 * half], x[..., 2 * half :]
    a, b = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    one, two = a * c - b * s, b * c + a * s
    both = torch.stack((one, two), -1).flatten(-2) if interleaved else torch.cat((one, two), -1)
    return torch.cat((both, rest), -1)


RECORD = row_record(
    "rope",
    "rotary position embedding of queries and keys",
    SCHEMA,
    rope,
    parameters={
        "batch": 4,
        "length": 4096,
        "heads": 32,
        "kv_heads": 8,
        "head": 128,
        "rotary": 128,
        "interleaved": False,
        "dtype": "float16",
    },
    samples=(
        {"batch": 2, "length": 5, "heads": 4, "kv_heads": 1, "head": 64, "rotary": 64},
        {"batch": 1, "length": 3, "heads": 3, "kv_heads": 2, "head": 80, "rotary": 48, "interleaved": True},
        {"batch": 1, "length": 1, "heads": 1, "kv_heads": 1, "head": 6, "rotary": 2, "dtype": "float32"},
        {"batch": 2, "length": 0, "heads": 4, "kv_heads": 1, "head": 64, "rotary": 64},
    ),
    arguments=_arguments,
    program=_program,
    definition=_definition,
)
