"""Attention by its definition, every score kept, and operands for it."""

import math

import torch
from judging import tensor


def visible(queries, keys, causal, left, right):
    rows = [[j - (i + keys - queries) for j in range(keys)] for i in range(queries)]
    away = torch.tensor(rows).view(queries, keys)
    return (away >= -left if left >= 0 else away > -math.inf) & (
        away <= (0 if causal else right if right >= 0 else math.inf)
    )


def plain(q, k, v, sink=None, *, causal=False, window=(-1, -1), softcap=0.0, scale=None):
    """Out and lse by the definition, every score kept."""
    share = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(share, 2) for x in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.masked_fill(~visible(q.shape[1], k.shape[1], causal, *window), -math.inf)
    if sink is not None:
        scores = torch.cat([scores, sink[None, :, None, None].expand(*scores.shape[:3], 1).to(scores.dtype)], -1)
    weights = scores.softmax(-1)[..., : k.shape[1]]
    lse = scores.to(torch.float64 if q.dtype == torch.float64 else torch.float32).logsumexp(-1)
    return torch.einsum("bhij,bjhd->bihd", weights, v), lse


def operands(batch=1, queries=70, keys=130, heads=4, heads_kv=2, dim=64, dim_v=None, dtype=torch.float16):
    return (
        tensor(batch, queries, heads, dim, dtype=dtype),
        tensor(batch, keys, heads_kv, dim, dtype=dtype, seed=1),
        tensor(batch, keys, heads_kv, dim_v or dim, dtype=dtype, seed=2),
    )
