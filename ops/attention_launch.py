"""Launches of the attention programs, dense or packed, on operands that were checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.dsl import Target
from tilewright.runtime import current_target, short_name

from .attention_arguments import laid_out
from .attention_backward import attention_keys_backward, attention_queries_backward
from .attention_programs import attention_forward
from .attention_steps import LOG2_E
from .attention_symbols import ACCESS
from .attention_tiles import bound, forward_tile, keys_passes, keys_tile, queries_tile
from .kernels import call, kernel_of

FAR = 1 << 30  # beyond every key: the band of a side without a bound


@dataclass(frozen=True)
class Scores:
    """How scores are made: scale, soft cap (0 for none), and the band of keys seen, -1 for a side without bound."""

    scale: float
    softcap: float
    left: int
    right: int

    @property
    def banded(self) -> bool:
        """Whether some keys may not be seen."""
        return self.left >= 0 or self.right >= 0

    def arguments(self, group: int, longest: int | None, backward: bool = False) -> tuple[int | float | None, ...]:
        """The programs' scalars behind the strides; None for those that they do without."""
        return (
            group,
            longest,
            self.scale * LOG2_E,
            self.scale if backward else None,
            self.softcap * LOG2_E if self.softcap else None,
            (FAR if self.left < 0 else self.left) if self.banded else None,
            (FAR if self.right < 0 else self.right) if self.banded else None,
        )


@dataclass(frozen=True)
class Packing:
    """Sequences one after another in one batch: where each starts (and the last ends), and the longest."""

    starts_q: torch.Tensor
    starts_k: torch.Tensor
    longest_q: int
    longest_k: int


def program_values(q: torch.Tensor, v: torch.Tensor, scores: Scores, packed: bool) -> dict[str, Any]:
    """What all attention programs are bound to."""
    return {
        "dtype": short_name(q.dtype),
        "dim": q.shape[-1],
        "dim_v": v.shape[-1],
        "banded": scores.banded,
        "capped": scores.softcap != 0,
        "packed": packed,
    }


def forward_values(
    q: torch.Tensor, v: torch.Tensor, sunk: bool, scores: Scores, packed: bool, target: Target
) -> Mapping[str, Any]:
    """What the forward program is bound to on a target."""
    tile = forward_tile(target, q.shape[-1], v.shape[-1])
    return {**program_values(q, v, scores, packed), "sunk": sunk, **bound(tile)}


def launch_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sink: torch.Tensor | None,
    out: torch.Tensor,
    lse: torch.Tensor,
    scores: Scores,
    packing: Packing | None = None,
) -> None:
    """Fill out and lse; (B, S, H, D) operands, with B = 1 where packed; at least one query and one key."""
    q, k, v = laid_out(q), laid_out(k), laid_out(v)
    packed = packing is not None
    kernel = kernel_of(attention_forward, **forward_values(q, v, sink is not None, scores, packed, current_target()))
    sinks = None if sink is None else sink.float().contiguous()
    longest = None if packing is None else packing.longest_q
    call(
        kernel,
        *(q, k, v, sinks, *_starts(packing), out, lse),
        *_strides(q, k, v),
        *scores.arguments(q.shape[2] // k.shape[2], longest),
    )


def launch_backward(
    dout: torch.Tensor,
    delta: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lse: torch.Tensor,
    gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    scores: Scores,
    packing: Packing | None = None,
) -> None:
    """Fill the gradients of q, k and v; delta (B, H, S) is the row sums of dout out, minus the gradient of lse."""
    q, k, v, dout = laid_out(q), laid_out(k), laid_out(v), laid_out(dout)
    dq, dk, dv = gradients
    target = current_target()
    values = program_values(q, v, scores, packing is not None)
    inputs, strides = (q, k, v, dout, lse, delta, *_starts(packing)), _strides(q, k, v, dout)
    group, dims = q.shape[2] // k.shape[2], (q.shape[3], v.shape[3])
    longest_q, longest_k = (None, None) if packing is None else (packing.longest_q, packing.longest_k)
    for want_k, want_v in keys_passes(*dims):
        kernel = kernel_of(
            attention_keys_backward, **values, want_k=want_k, want_v=want_v, **bound(keys_tile(target, *dims))
        )
        outputs = (dk if want_k else None, dv if want_v else None)
        call(kernel, *inputs, *outputs, *strides, *scores.arguments(group, longest_k, backward=True))
    kernel = kernel_of(attention_queries_backward, **values, **bound(queries_tile(target, *dims)))
    call(kernel, *inputs, dq, *strides, *scores.arguments(group, longest_q, backward=True))


def forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sink: torch.Tensor | None,
    out: torch.Tensor,
    lse: torch.Tensor,
    scores: Scores,
    packing: Packing | None = None,
) -> None:
    """Fill out (B, S, H, Dv) and lse (B, H, S); sizes may be 0, B is 1 where packed."""
    if out.numel() == 0:
        return
    if k.shape[1] == 0:
        out.zero_()
        lse.fill_(-math.inf) if sink is None else lse.copy_(sink[:, None].expand(lse.shape))
    else:
        launch_forward(q, k, v, sink, out, lse, scores, packing)


Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def empty_gradients(
    dout: torch.Tensor,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    *rest: Any,
) -> Gradients:
    """Gradients of q, k, v and the sink to be filled; takes what the gradient operators take."""
    sink = rest[-5]  # then scale, softcap, left and right
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    return dq, dk, dv, torch.empty(0 if sink is None else q.shape[-2], dtype=torch.float32, device=q.device)


def backward(
    dout: torch.Tensor,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    sink: torch.Tensor | None,
    gradients: Gradients,
    scores: Scores,
    packing: Packing | None = None,
) -> None:
    """Fill the gradients; sizes may be 0, B is 1 where packed."""
    dq, dk, dv, dsink = gradients
    if out.numel() == 0 or k.shape[1] == 0:
        for gradient in gradients:
            gradient.zero_()
        if sink is not None and dlse is not None and out.numel():
            dsink.copy_(dlse.sum((0, 2)))  # lse is the sink
        return
    delta = (dout.float() * out.float()).sum(-1).transpose(1, 2)
    delta = (delta if dlse is None else delta - dlse).contiguous()
    launch_backward(dout, delta, q, k, v, lse, (dq, dk, dv), scores, packing)
    if sink is not None:
        dsink.copy_(-(torch.exp(sink.float()[:, None] - lse) * delta).sum((0, 2)))


def _starts(packing: Packing | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return (None, None) if packing is None else (packing.starts_q.contiguous(), packing.starts_k.contiguous())


def _strides(*tensors: torch.Tensor) -> tuple[int, ...]:
    """Batch, row and head strides in accesses; of a dimension of one element any serves."""
    return tuple(tensor.stride(axis) // ACCESS for tensor in tensors for axis in range(3))
