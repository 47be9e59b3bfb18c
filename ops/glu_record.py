"""The records of SwiGLU and GeGLU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from tilewright.dsl import KernelFactory

from .glu import SCHEMA, bound_values, geglu, swiglu
from .glu_programs import glu_forward
from .records import Arguments, Make, row_record


def _pair(values: Mapping[str, Any], dtype: torch.dtype, make: Make) -> Arguments:
    shape = (values["m"], values["n"])
    return {"gate": make(shape, dtype), "up": make(shape, dtype)}


def _approximated(values: Mapping[str, Any], dtype: torch.dtype, make: Make) -> Arguments:
    return {**_pair(values, dtype, make), "approximate": "tanh" if values["tanh"] else "none"}


def _program(arguments: Arguments) -> tuple[KernelFactory, Mapping[str, Any]]:
    kind = {None: "silu", "none": "gelu", "tanh": "gelu_tanh"}[arguments.get("approximate")]
    return glu_forward, bound_values(kind, arguments["gate"].view(1, -1), arguments["up"].view(1, -1))


def _swiglu(wide: torch.dtype | None, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return functional.silu(gate.to(wide or gate.dtype)) * up.to(wide or up.dtype)


def _geglu(wide: torch.dtype | None, gate: torch.Tensor, up: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return functional.gelu(gate.to(wide or gate.dtype), approximate=approximate) * up.to(wide or up.dtype)


SAMPLES: tuple[Mapping[str, Any], ...] = (
    {"m": 5, "n": 300},
    {"m": 3, "n": 77, "dtype": "bfloat16"},
    {"m": 1, "n": 1, "dtype": "float32"},
    {"m": 0, "n": 64},
)
_SIZES: Mapping[str, Any] = {"m": 4096, "n": 4096, "dtype": "float16"}

SWIGLU = row_record(
    "swiglu",
    "silu(gate) up, elementwise",
    SCHEMA,
    swiglu,
    parameters=_SIZES,
    samples=SAMPLES,
    arguments=_pair,
    program=_program,
    definition=_swiglu,
)
GEGLU = row_record(
    "geglu",
    "gelu(gate) up, elementwise",
    SCHEMA,
    geglu,
    parameters={**_SIZES, "tanh": False},
    samples=(*({**sample, "tanh": True} for sample in SAMPLES[:1]), *SAMPLES),
    arguments=_approximated,
    program=_program,
    definition=_geglu,
)
