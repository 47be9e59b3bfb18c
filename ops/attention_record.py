"""The record of attention."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from tilewright.dsl import KernelFactory
from tilewright.runtime import current_target

from .attention import SCHEMA, attention
from .attention_arguments import Window, band_of
from .attention_launch import Scores, forward_values
from .attention_programs import attention_forward
from .attention_varlen import SCHEMA as VARLEN_SCHEMA
from .attention_varlen import attention_varlen
from .records import Arguments, Make, row_record

PARAMETERS: Mapping[str, Any] = {
    "batch": 1,
    "queries": 1024,
    "keys": 1024,
    "heads": 8,
    "heads_kv": 8,
    "dim": 128,
    "dim_v": 128,
    "causal": True,
    "window": 0,
    "softcap": 0.0,
    "sink": False,
    "dtype": "float16",
}


def definition(
    wide: torch.dtype | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    window: Window = None,
    softcap: float = 0.0,
    scale: float | None = None,
    sink: torch.Tensor | None = None,
) -> torch.Tensor:
    """Torch's result, step by step, in ``wide`` or else in the operands' dtype with float32 softmax."""
    group = q.shape[2] // max(1, k.shape[2])
    q, k, v = (x.to(wide or x.dtype).transpose(1, 2) for x in (q, k, v))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.to(wide or torch.float32).masked_fill(~seen(q.shape[2], k.shape[2], causal, window), -math.inf)
    top = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0) if k.shape[2] else scores.new_zeros(())
    weights = torch.exp(scores - top)
    norm = weights.sum(-1, keepdim=True)
    if sink is not None:
        norm = norm + torch.exp(sink.to(norm.dtype)[:, None, None] - top)
    weights = torch.where(norm == 0, torch.zeros_like(weights), weights / norm)
    return (weights.to(v.dtype) @ v).transpose(1, 2)


def seen(queries: int, keys: int, causal: bool, window: Window) -> torch.Tensor:
    """(queries, keys): whether a query sees a key."""
    left, right = band_of(causal, window)
    away = torch.arange(keys)[None] - torch.arange(keys - queries, keys)[:, None]
    return ((left < 0) | (away >= -left)) & ((right < 0) | (away <= right))


def _arguments(values: Mapping[str, Any], dtype: torch.dtype, make: Make) -> Arguments:
    batch, keys, heads_kv = values["batch"], values["keys"], values["heads_kv"]
    return {
        "q": make((batch, values["queries"], values["heads"], values["dim"]), dtype),
        "k": make((batch, keys, heads_kv, values["dim"]), dtype),
        "v": make((batch, keys, heads_kv, values["dim_v"]), dtype),
        "causal": values["causal"],
        "window": values["window"] or None,
        "softcap": values["softcap"],
        "sink": make((values["heads"],), torch.float32) if values["sink"] else None,
    }


def _program(arguments: Arguments, packed: bool = False) -> tuple[KernelFactory, Mapping[str, Any]]:
    left, right = band_of(arguments["causal"], arguments["window"])
    scores = Scores(1.0, arguments["softcap"], left, right)
    sunk = arguments["sink"] is not None
    return attention_forward, forward_values(arguments["q"], arguments["v"], sunk, scores, packed, current_target())


_SMALL: Mapping[str, Any] = {"queries": 70, "keys": 130, "heads": 4, "heads_kv": 2, "dim": 64, "dim_v": 64}

RECORD = row_record(
    "attention",
    "softmax(scale q k^T) v: grouped heads, causal or windowed, soft-capped, with sinks",
    SCHEMA,
    attention,
    parameters=PARAMETERS,
    samples=(
        {**_SMALL, "causal": False},
        {**_SMALL, "queries": 130, "keys": 70, "batch": 2},
        {**_SMALL, "causal": False, "window": 20, "softcap": 5.0, "sink": True, "dtype": "bfloat16"},
        {**_SMALL, "queries": 1, "keys": 1, "heads": 1, "heads_kv": 1},
        {**_SMALL, "keys": 0},
    ),
    arguments=_arguments,
    program=_program,
    definition=definition,
)


VARLEN_PARAMETERS: Mapping[str, Any] = {
    "sequences": 4,
    **{name: value for name, value in PARAMETERS.items() if name != "batch"},
}


def varlen_definition(
    wide: torch.dtype | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    **options: Any,
) -> torch.Tensor:
    """``definition`` of one sequence after another."""
    queries, keys = cu_seqlens_q.diff().tolist(), cu_seqlens_k.diff().tolist()
    parts = zip(torch.split(q, queries), torch.split(k, keys), torch.split(v, keys), strict=True)
    return torch.cat([definition(wide, a[None], b[None], c[None], **options)[0] for a, b, c in parts])


def _lengths(longest: int, sequences: int) -> list[int]:
    """Lengths from longest / sequences to longest."""
    return [longest * (i + 1) // sequences for i in range(sequences)]


def _varlen_arguments(values: Mapping[str, Any], dtype: torch.dtype, make: Make) -> Arguments:
    queries, keys = (_lengths(values[name], values["sequences"]) for name in ("queries", "keys"))
    packed = {**values, "batch": 1, "queries": sum(queries), "keys": sum(keys)}
    arguments = _arguments(packed, dtype, make)
    starts = (torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32) for lengths in (queries, keys))
    return {
        **arguments,
        **{name: arguments[name][0] for name in "qkv"},
        **dict(zip(("cu_seqlens_q", "cu_seqlens_k"), starts, strict=True)),
        "max_seqlen_q": values["queries"],
        "max_seqlen_k": values["keys"],
    }


VARLEN = row_record(
    "attention_varlen",
    "attention within each of several packed sequences",
    VARLEN_SCHEMA,
    attention_varlen,
    parameters=VARLEN_PARAMETERS,
    samples=(
        {**_SMALL, "sequences": 3},
        {**_SMALL, "sequences": 2, "causal": False, "window": 20, "softcap": 5.0, "sink": True, "dtype": "bfloat16"},
        {**_SMALL, "sequences": 3, "queries": 2, "keys": 2},
    ),
    arguments=_varlen_arguments,
    program=partial(_program, packed=True),
    definition=varlen_definition,
)
