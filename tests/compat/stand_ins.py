"""Packages that a few references call and that need a GPU to build, written here with torch in double precision."""

from __future__ import annotations

import sys
import types
from typing import Any

import torch


def _attention(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Softmax attention of one sequence: q (m, heads, d), k and v (n, heads of k and v, d); masks align at the end."""
    group = q.shape[1] // k.shape[1]
    keys, values = (t.double().repeat_interleave(group, dim=1) for t in (k, v))
    scores = torch.einsum("mhd,nhd->hmn", q.double(), keys) / q.shape[-1] ** 0.5
    if causal:
        m, n = scores.shape[-2:]
        seen = torch.arange(n) <= torch.arange(m)[:, None] + n - m
        scores = scores.masked_fill(~seen, float("-inf"))
    weights = torch.softmax(scores, -1).nan_to_num()
    return torch.einsum("hmn,nhd->mhd", weights, values).to(q.dtype)


def flash_attn_varlen_func(
    q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, *_: Any, causal: bool = False, **__: Any
) -> Any:
    """Attention of sequences laid end to end; the starts are prefix sums of their lengths."""
    bounds = zip(*(zip(s[:-1].tolist(), s[1:].tolist(), strict=True) for s in (starts_q, starts_k)), strict=True)
    return torch.cat([_attention(q[a:b], k[c:d], v[c:d], causal=causal) for (a, b), (c, d) in bounds])


def flash_attn_with_kvcache(
    q: Any, k: Any, v: Any, *, cache_seqlens: Any, block_table: Any = None, causal: bool = False
) -> Any:
    """Attention over caches of these lengths, in pages where a table of pages is given; q is (batch, m, heads, d)."""
    outputs = []
    for row, length in enumerate(cache_seqlens.tolist()):
        caches = (k, v)
        whole = [c[row] if block_table is None else c[block_table[row].long()].flatten(0, 1) for c in caches]
        outputs.append(_attention(q[row], *(c[:length] for c in whole), causal=causal))
    return torch.stack(outputs)


def install() -> None:
    """Answer ``import flash_attn`` from here."""
    module = types.ModuleType("flash_attn")
    module.flash_attn_varlen_func = flash_attn_varlen_func  # type: ignore[attr-defined]
    module.flash_attn_with_kvcache = flash_attn_with_kvcache  # type: ignore[attr-defined]
    sys.modules["flash_attn"] = module
