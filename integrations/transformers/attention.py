"""Attention under a name of transformers' attention interface, on ``tw.ops.attention``."""

from __future__ import annotations

from typing import Any, cast

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import flash_attention_mask

from tilewright import ops

from .errors import IntegrationError

ATTENTION = "tilewright"


def register_attention() -> None:
    """Make ``model.set_attn_implementation("tilewright")`` known to transformers."""
    AttentionInterface.register(ATTENTION, attention_forward)
    AttentionMaskInterface.register(ATTENTION, flash_attention_mask)


def attention_forward(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: torch.Tensor | None = None,
    **keywords: Any,
) -> tuple[torch.Tensor, None]:
    """One attention layer.

    Args:
        module: the layer; its ``is_causal`` counts when ``is_causal`` is None.
        query: (B, H, S, D); key and value: (B, Hkv, Skv, D).
        attention_mask: None, or (B, Skv) bool with False at padding: padded rows are packed first.
        sliding_window: how many keys a query sees, itself included.
        softcap, scaling, s_aux: logit soft-cap, scale, attention sinks (H,).
        keywords: ``cu_seq_lens_q``, ``cu_seq_lens_k``, ``max_length_q``, ``max_length_k`` of packed batches.

    Returns:
        (B, S, H, D) and no weights.

    Raises:
        IntegrationError: dropout, asked-for weights, or a mask that is no padding.
    """
    _refuse(dropout, attention_mask, keywords)
    q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, value))
    options: dict[str, Any] = {
        "causal": module.is_causal if is_causal is None else is_causal,
        "window": sliding_window,
        "softcap": softcap or 0.0,
        "scale": scaling,
        "sink": s_aux,
    }
    if keywords.get("cu_seq_lens_q") is not None:
        return _packed(q, k, v, keywords, options), None
    if attention_mask is not None:
        return _padded(q, k, v, attention_mask, options), None
    return cast(torch.Tensor, ops.attention(q, k, v, **options)), None


def _refuse(dropout: float, mask: torch.Tensor | None, keywords: dict[str, Any]) -> None:
    if dropout:
        raise IntegrationError(f"attention dropout = {dropout}", remedy="set attention_dropout to 0 in the config")
    if keywords.get("output_attentions"):
        raise IntegrationError(
            "output_attentions asks for weights, which are never stored", remedy='use attn_implementation="eager"'
        )
    if mask is not None and mask.dim() != 2:
        raise IntegrationError(
            f"an attention mask of shape {tuple(mask.shape)} is no padding of (batch, length)",
            remedy="pass the padding mask of the tokenizer",
        )


def _packed(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, keywords: dict[str, Any], options: dict[str, Any]
) -> torch.Tensor:
    lengths = [keywords[name].to(torch.int32) for name in ("cu_seq_lens_q", "cu_seq_lens_k")]
    most = [int(keywords[name]) for name in ("max_length_q", "max_length_k")]
    out: torch.Tensor = ops.attention_varlen(*(x.flatten(0, 1) for x in (q, k, v)), *lengths, *most, **options)  # type: ignore[attr-defined]
    return out.view(*q.shape[:-1], v.shape[-1])


def _padded(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, options: dict[str, Any]
) -> torch.Tensor:
    """Attention over the tokens that are no padding; zeros at padding."""
    keys = mask.bool()[:, : k.shape[1]]
    queries = keys[:, -q.shape[1] :]
    ends = [torch.nn.functional.pad(each.sum(1).cumsum(0), (1, 0)).to(torch.int32) for each in (queries, keys)]
    packed = [x[rows] for x, rows in ((q, queries), (k, keys), (v, keys))]
    out: torch.Tensor = ops.attention_varlen(*packed, *ends, q.shape[1], k.shape[1], **options)  # type: ignore[attr-defined]
    whole = out.new_zeros((*q.shape[:-1], v.shape[-1]))
    return whole.index_put((queries,), out)
