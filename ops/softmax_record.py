"""The record of softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.dsl import KernelFactory

from .records import Arguments, Make, row_record
from .softmax import SCHEMA, forward_values, softmax
from .softmax_programs import softmax_forward


def _arguments(values: Mapping[str, Any], dtype: torch.dtype, make: Make) -> Arguments:
    return {"x": make((values["m"], values["n"]), dtype)}


def _program(arguments: Arguments) -> tuple[KernelFactory, Mapping[str, Any]]:
    return softmax_forward, forward_values(arguments["x"])


def _definition(wide: torch.dtype | None, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    return torch.softmax(x.to(wide or x.dtype), dim)


RECORD = row_record(
    "softmax",
    "exp(x - max(x)) / sum over one dimension, of any length",
    SCHEMA,
    softmax,
    parameters={"m": 4096, "n": 4096, "dtype": "float16"},
    samples=(
        {"m": 5, "n": 1000},
        {"m": 17, "n": 77, "dtype": "bfloat16"},
        {"m": 2, "n": 33000, "dtype": "float32"},
        {"m": 1, "n": 1},
        {"m": 0, "n": 64},
    ),
    arguments=_arguments,
    program=_program,
    definition=_definition,
)
