"""Attention over packed sequences of different lengths, and its gradients."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.runtime import register_operator, short_name

from . import checks
from .attention import default_scale, under_autocast
from .attention_arguments import Window, band_of, check_attention
from .attention_launch import Gradients, Packing, Scores, backward, empty_gradients, forward
from .errors import OperandTypeError, OptionError, ShapeError

_PLACES = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, int max_seqlen_q, int max_seqlen_k"
_OPTIONS = "Tensor? sink, float scale, float softcap, int left, int right"
SCHEMA = f"(Tensor q, Tensor k, Tensor v, {_PLACES}, {_OPTIONS}) -> (Tensor, Tensor)"
_BACKWARD_SCHEMA = (
    f"(Tensor dout, Tensor? dlse, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_PLACES}, {_OPTIONS})"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
_MOST = 65535  # blocks along z of a grid


def _forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    sink: torch.Tensor | None,
    scale: float,
    softcap: float,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    out, lse = _fake(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, sink, scale, softcap, left, right)
    _check_places("q", cu_seqlens_q, max_seqlen_q, q.shape[0])
    _check_places("k", cu_seqlens_k, max_seqlen_k, k.shape[0])
    packing = Packing(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    forward(q[None], k[None], v[None], sink, out[None], lse[None], Scores(scale, softcap, left, right), packing)
    return out, lse


def _check_places(name: str, starts: torch.Tensor, longest: int, rows: int) -> None:
    """Refuse places outside the rows: on the CPU only, where looking at the numbers stops no stream."""
    if starts.device.type != "cpu":
        return
    lengths = starts.diff()
    if int(starts[0]) != 0 or int(starts[-1]) != rows or bool((lengths < 0).any()):
        raise OptionError(
            f"attention_varlen: cu_seqlens_{name} does not go up from 0 to the {rows} rows of {name}",
            values={f"cu_seqlens_{name}": starts.tolist()[:16]},
            remedy="give 0 and then the sum of the lengths up to each sequence's end",
        )
    if lengths.numel() and int(lengths.max()) > longest:
        raise OptionError(
            f"attention_varlen: max_seqlen_{name} = {longest}, but a sequence of {name} has {int(lengths.max())} rows",
            remedy="give the length of the longest sequence, or more",
        )


def _check(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    starts_q: torch.Tensor,
    starts_k: torch.Tensor,
    sink: torch.Tensor | None,
    softcap: float,
) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 3:
            raise ShapeError(
                f"attention_varlen: {name} has shape {tuple(tensor.shape)}, not (rows, heads, size)",
                remedy="pack the sequences along the first dimension, or call attention",
            )
    check_attention(q[None], k[None], v[None], sink, softcap, name="attention_varlen")
    for name, starts in (("q", starts_q), ("k", starts_k)):
        if starts.dtype != torch.int32:
            raise OperandTypeError(
                f"attention_varlen: cu_seqlens_{name} has dtype {short_name(starts.dtype)}",
                remedy=f"convert it: cu_seqlens_{name}.to(torch.int32)",
            )
        if starts.dim() != 1 or not 0 < starts.shape[0] <= _MOST + 1:
            raise ShapeError(
                f"attention_varlen: cu_seqlens_{name} has shape {tuple(starts.shape)}",
                remedy=f"give 0 and each sequence's end: 1 to {_MOST + 1} numbers",
            )
    if starts_q.shape != starts_k.shape:
        raise ShapeError(
            f"attention_varlen: {starts_q.shape[0] - 1} sequences of q, {starts_k.shape[0] - 1} of k",
            remedy="give both the same number of sequences; they may be empty",
        )
    checks.require_device("attention_varlen", "q", q, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k)


def _fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    sink: torch.Tensor | None,
    scale: float,
    softcap: float,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    _check(q, k, v, cu_seqlens_q, cu_seqlens_k, sink, softcap)
    out = torch.empty((*q.shape[:2], v.shape[2]), dtype=q.dtype, device=q.device)
    return out, torch.empty((q.shape[1], q.shape[0]), dtype=torch.float32, device=q.device)


def _backward(
    dout: torch.Tensor,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    sink: torch.Tensor | None,
    scale: float,
    softcap: float,
    left: int,
    right: int,
) -> Gradients:
    rest = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, sink, scale, softcap, left, right)
    gradients = empty_gradients(dout, dlse, q, k, v, out, lse, *rest)
    dq, dk, dv, dsink = gradients
    packing = Packing(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    tensors = (dout[None], None if dlse is None else dlse[None], q[None], k[None], v[None], out[None], lse[None])
    scores = Scores(scale, softcap, left, right)
    backward(*tensors, sink, (dq[None], dk[None], dv[None], dsink), scores, packing)
    return gradients


_gradient_operator = register_operator("attention_varlen_backward", _BACKWARD_SCHEMA, _backward, fake=empty_gradients)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, starts_q, starts_k, longest_q, longest_k, sink, *options = inputs
    ctx.options = (longest_q, longest_k, options)
    ctx.save_for_backward(q, k, v, *output, starts_q, starts_k, sink)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dout: torch.Tensor | None, dlse: torch.Tensor | None) -> tuple[Any, ...]:
    if dout is None and dlse is None:
        return (None,) * 12
    q, k, v, out, lse, starts_q, starts_k, sink = ctx.saved_tensors
    longest_q, longest_k, options = ctx.options
    dout = torch.zeros_like(out) if dout is None else dout
    dq, dk, dv, dsink = _gradient_operator(
        dout, dlse, q, k, v, out, lse, starts_q, starts_k, longest_q, longest_k, sink, *options
    )
    return dq, dk, dv, *(None,) * 4, None if sink is None else dsink.to(sink.dtype), *(None,) * 4


_operator = register_operator(
    "attention_varlen", SCHEMA, _forward, fake=_fake, backward=_gradients, setup_context=_keep
)


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = False,
    window: Window = None,
    softcap: float = 0.0,
    scale: float | None = None,
    sink: torch.Tensor | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``attention`` of each of several sequences, packed one after another; nothing of one reaches another.

    Args:
        q: (Tq, H, D), float16 or bfloat16; sizes and strides as in ``attention``.
        k: (Tk, Hkv, D).
        v: (Tk, Hkv, Dv).
        cu_seqlens_q: (N + 1,) int32 on q's device: sequence n has rows cu_seqlens_q[n] to cu_seqlens_q[n + 1], from 0
            to Tq without a gap; it may have none.
        cu_seqlens_k: (N + 1,) int32, likewise of k and v.
        max_seqlen_q: at least the longest sequence of q.
        max_seqlen_k: at least the longest of k.
        causal, window, softcap, scale, sink: as in ``attention``, within each sequence.
        return_lse: also return lse.

    Returns:
        out (Tq, H, Dv), dense; with ``return_lse`` also lse (H, Tq) float32. Differentiable once, lse too.

    Raises:
        OperandTypeError, ShapeError, DeviceMismatch, OptionError: as ``attention``; also for places that do not fit,
            looked at on the CPU only: on a GPU that would wait for the stream, and wrong ones are undefined behaviour.
    """
    left, right = band_of(causal, window, name="attention_varlen")
    q, k, v = under_autocast(q, k, v)
    places = (cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k))
    out, lse = _operator(q, k, v, *places, sink, default_scale(q, scale), float(softcap), left, right)
    return (out, lse) if return_lse else out
