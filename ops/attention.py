"""Attention with grouped heads, causal or windowed, soft-capped, with sinks; and its gradients."""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright.runtime import register_operator

from .attention_arguments import Window, band_of, check_attention
from .attention_launch import Gradients, Scores, backward, empty_gradients, forward

_OPTIONS = "Tensor? sink, float scale, float softcap, int left, int right"
SCHEMA = f"(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)"
_BACKWARD_SCHEMA = (
    f"(Tensor dout, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_OPTIONS})"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)


def _forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sink: torch.Tensor | None,
    scale: float,
    softcap: float,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    out, lse = _fake(q, k, v, sink, scale, softcap, left, right)
    forward(q, k, v, sink, out, lse, Scores(scale, softcap, left, right))
    return out, lse


def _fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sink: torch.Tensor | None,
    scale: float,
    softcap: float,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_attention(q, k, v, sink, softcap)
    out = torch.empty((*q.shape[:3], v.shape[3]), dtype=q.dtype, device=q.device)
    lse = torch.empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32, device=q.device)
    return out, lse


def _backward(
    dout: torch.Tensor,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    sink: torch.Tensor | None,
    scale: float,
    softcap: float,
    left: int,
    right: int,
) -> Gradients:
    gradients = empty_gradients(dout, dlse, q, k, v, out, lse, sink, scale, softcap, left, right)
    backward(dout, dlse, q, k, v, out, lse, sink, gradients, Scores(scale, softcap, left, right))
    return gradients


_gradient_operator = register_operator("attention_backward", _BACKWARD_SCHEMA, _backward, fake=empty_gradients)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, sink, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output, sink)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dout: torch.Tensor | None, dlse: torch.Tensor | None) -> tuple[Any, ...]:
    q, k, v, out, lse, sink = ctx.saved_tensors
    if dout is None and dlse is None:
        return (None,) * 8
    dout = torch.zeros_like(out) if dout is None else dout
    dq, dk, dv, dsink = _gradient_operator(dout, dlse, q, k, v, out, lse, sink, *ctx.options)
    return dq, dk, dv, None if sink is None else dsink.to(sink.dtype), None, None, None, None


_operator = register_operator("attention", SCHEMA, _forward, fake=_fake, backward=_gradients, setup_context=_keep)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: Window = None,
    softcap: float = 0.0,
    scale: float | None = None,
    sink: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale q k^T) v for each head, in one pass over the keys (arXiv 2205.14135, 2307.08691).

    A query that sees no key gives zeros, and lse -inf. Deterministic: gradients are summed in a fixed order, without
    atomics. Under autocast float32 operands are cast to its dtype, as torch's own attention does.

    Args:
        q: (B, S, H, D), float16 or bfloat16; D of 32, 64, 96, 128, 192 or 256. Stride 1 along D; other strides and
            addresses in steps of 16 bytes, else a copy is made.
        k: (B, Skv, Hkv, D) of q's dtype; H must be a multiple of Hkv.
        v: (B, Skv, Hkv, Dv), Dv = D, or 128 with D = 192.
        causal: query i sees keys up to i + Skv - S: the last query sees every key.
        window: a whole number w: only keys less than w away from there; or (left, right): that many keys on each
            side, -1 for no bound.
        softcap: scores become softcap tanh(score / softcap); 0 for none.
        scale: of the scores; default 1 / sqrt(D).
        sink: (H,), one more score in each softmax of a head, without a value (arXiv 2309.17453); float.
        return_lse: also return lse.

    Returns:
        out (B, S, H, Dv), dense; with ``return_lse`` also lse (B, H, S) float32, the natural logarithm of the
        softmax's denominator. Differentiable once, lse too.

    Raises:
        OperandTypeError: another dtype, or several.
        ShapeError: shapes that do not fit together, a head size that no kernel takes.
        DeviceMismatch: tensors on different devices.
        OptionError: a window or softcap below its range.
    """
    left, right = band_of(causal, window)
    q, k, v = under_autocast(q, k, v)
    out, lse = _operator(q, k, v, sink, default_scale(q, scale), float(softcap), left, right)
    return (out, lse) if return_lse else out


def default_scale(q: torch.Tensor, scale: float | None) -> float:
    """The scale that was given, or 1 / sqrt(D)."""
    return 1.0 / math.sqrt(max(1, q.shape[-1])) if scale is None else float(scale)


def under_autocast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors; float32 ones in autocast's dtype where it is on."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    low = torch.get_autocast_dtype(device)
    return tuple(x.to(low) if x.dtype == torch.float32 else x for x in tensors)
