"""The records of RMSNorm and LayerNorm: how their calls are described, made, compared and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from tilewright.dsl import Target
from tilewright.schedules import Schedule

from .norm import LAYER_SCHEMA, RMS_SCHEMA, forward_factory, layer_norm, rms_norm
from .operator import TARGETS, Lowering, Operator, Tolerance
from .values import torch_dtype

PARAMETERS: Mapping[str, Any] = {"m": 4096, "n": 4096, "dtype": "float16", "residual": False}

SAMPLES: tuple[Mapping[str, Any], ...] = (
    {"m": 5, "n": 1024},
    {"m": 3, "n": 1000, "residual": True},
    {"m": 1, "n": 1},
    {"m": 17, "n": 77},
    {"m": 9, "n": 64, "dtype": "bfloat16"},
    {"m": 2, "n": 512, "dtype": "float32"},
    {"m": 0, "n": 64},
)


def _tensors(kind: str, values: Mapping[str, Any], make: Callable[..., torch.Tensor]) -> dict[str, Any]:
    dtype = torch_dtype(f"{kind}_norm", values["dtype"])
    m, n = values["m"], values["n"]
    named = {"x": make((m, n), dtype), "weight": make((n,), dtype)}
    if kind == "layer":
        named["bias"] = make((n,), dtype)
    return {**named, "residual": make((m, n), dtype) if values["residual"] else None}


def _inputs(kind: str, values: Mapping[str, Any], generator: torch.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), _tensors(kind, values, lambda shape, dtype: torch.randn(shape, generator=generator).to(dtype))


def _lowering(kind: str, values: Mapping[str, Any], target: Target) -> Lowering:
    sizes = {**values, "m": max(1, values["m"]), "n": max(1, values["n"])}
    named = _tensors(kind, sizes, lambda shape, dtype: torch.empty(shape, dtype=dtype, device="meta"))
    factory, bound = forward_factory(kind, named["x"], named["weight"], named.get("bias"), named["residual"])
    return Lowering(factory.bind(**bound), Schedule())


def _norm(
    wide: torch.dtype | None,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    eps: float | None = None,
    *,
    kind: str,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    total = x if residual is None else x + residual  # rounded to the dtype, as the operator defines it
    own = wide or x.dtype
    x, weight, bias = total.to(own), weight.to(own), None if bias is None else bias.to(own)
    shape = x.shape[-1:]
    if kind == "rms":
        y = functional.rms_norm(x, shape, weight, 1e-6 if eps is None else eps)
    else:
        y = functional.layer_norm(x, shape, weight, bias, 1e-5 if eps is None else eps)
    return y if residual is None else (y, total)


def _around(values: Mapping[str, Any]) -> AbstractContextManager[None]:
    return nullcontext()


def _targets(values: Mapping[str, Any]) -> tuple[str, ...]:
    return TARGETS


def _record(kind: str, summary: str, schema: str, function: Callable[..., Any]) -> Operator:
    return Operator(
        name=f"{kind}_norm",
        summary=summary,
        schema=schema,
        function=function,
        parameters=PARAMETERS,
        inputs=partial(_inputs, kind),
        lowering=partial(_lowering, kind),
        reference=partial(_norm, torch.float64, kind=kind),
        baseline=partial(_norm, None, kind=kind),
        samples=SAMPLES,
        tolerance=Tolerance(),
        targets=_targets,
        differentiable=True,
        around=_around,
    )


RMS = _record("rms", "x / sqrt(mean(x^2) + eps) * weight over rows, a residual added first", RMS_SCHEMA, rms_norm)
LAYER = _record("layer", "(x - mean) / sqrt(var + eps) * weight + bias over rows", LAYER_SCHEMA, layer_norm)
