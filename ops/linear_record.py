"""The record of a linear layer: a matmul whose second operand is stored transposed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from tilewright.dsl import Target

from . import gemm_record
from .gemm_reference import baseline, reference
from .linear import SCHEMA, linear
from .operator import TARGETS, Lowering

_PARAMETERS = ("m", "n", "k", "dtype", "bias", "activation", "tf32")


def _as_gemm(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**gemm_record.PARAMETERS, **values, "transpose_b": True}


def _inputs(values: Mapping[str, Any], generator: torch.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, w), keywords = gemm_record.inputs(_as_gemm(values), generator)
    return (x, w.mT), {"bias": keywords["bias"], "activation": keywords["activation"]}


def _lowering(values: Mapping[str, Any], target: Target) -> Lowering:
    return gemm_record.lowering(_as_gemm(values), target)


def _targets(values: Mapping[str, Any]) -> tuple[str, ...]:
    return TARGETS


def _by(multiply: Callable[..., Any], x: torch.Tensor, w: torch.Tensor, **keywords: Any) -> Any:
    return multiply(x, w.mT, **keywords)


RECORD = dataclasses.replace(
    gemm_record.RECORD,
    name="linear",
    summary="activation(x w^T + bias), a linear layer",
    schema=SCHEMA,
    function=linear,
    parameters={name: gemm_record.PARAMETERS[name] for name in _PARAMETERS},
    inputs=_inputs,
    lowering=_lowering,
    reference=partial(_by, reference),
    baseline=partial(_by, baseline),
    samples=(
        {"m": 33, "n": 40, "k": 72, "bias": True, "activation": "silu"},
        {"m": 16, "n": 24, "k": 32, "dtype": "bfloat16"},
        {"m": 1, "n": 1, "k": 1, "dtype": "float32"},
        {"m": 0, "n": 8, "k": 8},
    ),
    targets=_targets,
)
