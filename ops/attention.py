"""Attention with grouped heads, causal or windowed, soft-capped, with sinks; and its gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from tilewright.dsl import Target
from tilewright.runtime import current_target, register_operator, short_name

from .attention_arguments import Window, band_of, check_attention, laid_out
from .attention_backward import attention_keys_backward, attention_queries_backward
from .attention_programs import attention_forward
from .attention_steps import LOG2_E
from .attention_symbols import ACCESS
from .attention_tiles import bound, forward_tile, keys_passes, keys_tile, queries_tile
from .kernels import call, kernel_of

_OPTIONS = "Tensor? sink, float scale, float softcap, int left, int right"
SCHEMA = f"(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)"
_BACKWARD_SCHEMA = (
    f"(Tensor dout, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_OPTIONS})"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
FAR = 1 << 30  # beyond every key: the band of a side without a bound


def program_values(q: torch.Tensor, v: torch.Tensor, softcap: float, left: int, right: int) -> dict[str, Any]:
    """What all attention programs are bound to."""
    return {
        "dtype": short_name(q.dtype),
        "dim": q.shape[3],
        "dim_v": v.shape[3],
        "banded": left >= 0 or right >= 0,
        "capped": softcap != 0,
    }


def forward_values(
    q: torch.Tensor, v: torch.Tensor, sunk: bool, softcap: float, left: int, right: int, target: Target
) -> Mapping[str, Any]:
    """What the forward program is bound to on a target."""
    tile = forward_tile(target, q.shape[3], v.shape[3])
    return {**program_values(q, v, softcap, left, right), "sunk": sunk, **bound(tile)}


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
    if out.numel() == 0:
        return out, lse
    if k.shape[1] == 0:
        lse.fill_(-math.inf) if sink is None else lse.copy_(sink[:, None].expand(lse.shape))
        return out.zero_(), lse
    q, k, v = laid_out(q), laid_out(k), laid_out(v)
    kernel = kernel_of(
        attention_forward, **forward_values(q, v, sink is not None, softcap, left, right, current_target())
    )
    sinks = None if sink is None else sink.float().contiguous()
    call(kernel, q, k, v, sinks, out, lse, *_strides(q, k, v), *_scalars(q, k, scale, softcap, left, right))
    return out, lse


def _strides(*tensors: torch.Tensor) -> tuple[int, ...]:
    """Batch, row and head strides in accesses; of a dimension of one element any serves."""
    return tuple(tensor.stride(axis) // ACCESS for tensor in tensors for axis in range(3))


def _scalars(
    q: torch.Tensor, k: torch.Tensor, scale: float, softcap: float, left: int, right: int, backward: bool = False
) -> tuple[int | float | None, ...]:
    banded = left >= 0 or right >= 0
    return (
        q.shape[2] // k.shape[2],
        scale * LOG2_E,
        scale if backward else None,
        softcap * LOG2_E if softcap else None,
        (FAR if left < 0 else left) if banded else None,
        (FAR if right < 0 else right) if banded else None,
    )


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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    dq, dk, dv, dsink = _backward_fake(dout, dlse, q, k, v, out, lse, sink, scale, softcap, left, right)
    if out.numel() == 0 or k.shape[1] == 0:
        if dlse is not None and sink is not None and out.numel():
            dsink.copy_(dlse.sum((0, 2)))
        return dq.zero_(), dk.zero_(), dv.zero_(), dsink if dlse is not None and out.numel() else dsink.zero_()
    q, k, v, dout = laid_out(q), laid_out(k), laid_out(v), laid_out(dout)
    delta = (dout.float() * out.float()).sum(-1).transpose(1, 2)
    delta = (delta if dlse is None else delta - dlse).contiguous()
    values, target = program_values(q, v, softcap, left, right), current_target()
    inputs = (q, k, v, dout, lse, delta)
    numbers = (*_strides(q, k, v, dout), *_scalars(q, k, scale, softcap, left, right, backward=True))
    dims = q.shape[3], v.shape[3]
    for want_k, want_v in keys_passes(*dims):
        kernel = kernel_of(
            attention_keys_backward, **values, want_k=want_k, want_v=want_v, **bound(keys_tile(target, *dims))
        )
        call(kernel, *inputs, dk if want_k else None, dv if want_v else None, *numbers)
    call(kernel_of(attention_queries_backward, **values, **bound(queries_tile(target, *dims))), *inputs, dq, *numbers)
    if sink is not None:
        dsink.copy_(-(torch.exp(sink.float()[:, None] - lse) * delta).sum((0, 2)))
    return dq, dk, dv, dsink


def _backward_fake(
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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    return dq, dk, dv, torch.empty(0 if sink is None else q.shape[2], dtype=torch.float32, device=q.device)


_gradient_operator = register_operator("attention_backward", _BACKWARD_SCHEMA, _backward, fake=_backward_fake)


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
    factor = 1.0 / math.sqrt(max(1, q.shape[-1])) if scale is None else float(scale)
    if torch.is_autocast_enabled(q.device.type):
        low = torch.get_autocast_dtype(q.device.type)
        q, k, v = (x.to(low) if x.dtype == torch.float32 else x for x in (q, k, v))
    out, lse = _operator(q, k, v, sink, factor, float(softcap), left, right)
    return (out, lse) if return_lse else out
