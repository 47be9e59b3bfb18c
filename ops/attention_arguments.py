"""What the attention operators take: shapes, dtypes, windows and layouts."""

from __future__ import annotations

import torch

from tilewright.runtime import short_name

from . import checks
from .attention_tiles import HEADS
from .errors import OperandTypeError, OptionError, ShapeError
from .rows import ACCESS_BYTES

Window = int | tuple[int, int] | None

_DTYPES = (torch.float16, torch.bfloat16)
_LONGEST = 1 << 29
_MOST = 65535  # blocks along y and z of a grid


def band_of(causal: bool, window: Window, name: str = "attention") -> tuple[int, int]:
    """How many keys left and right of its own place a query sees; -1 for no bound.

    Raises:
        OptionError: a window of another kind, or below its range.
    """
    if window is None:
        left, right = -1, -1
    elif type(window) is int and window >= 1:
        left = right = window - 1
    elif isinstance(window, tuple | list) and len(window) == 2 and all(type(w) is int and w >= -1 for w in window):
        left, right = window
    else:
        raise OptionError(
            f"{name}: window = {window!r}", remedy="give a whole number above 0, or (left, right) with -1 for no bound"
        )
    return min(left, _LONGEST), 0 if causal else min(right, _LONGEST)


def check_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sink: torch.Tensor | None,
    softcap: float,
    name: str = "attention",
) -> None:
    """Refuse what no attention kernel takes, in the name of an operator.

    Raises:
        OperandTypeError, ShapeError, DeviceMismatch, OptionError: see ``attention``.
    """
    _check_dtypes(name, q, k, v, sink)
    _check_shapes(name, q, k, v)
    checks.require_device(name, "q", q, k=k, v=v, sink=sink)
    if sink is not None and tuple(sink.shape) != (q.shape[2],):
        raise ShapeError(
            f"{name}: sink has shape {tuple(sink.shape)}, q has {q.shape[2]} heads",
            remedy=f"pass one number a head: ({q.shape[2]},)",
        )
    if not softcap >= 0:
        raise OptionError(f"{name}: softcap = {softcap}", remedy="give a positive number, or 0 for none")


def _check_dtypes(operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sink: torch.Tensor | None) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dtype not in _DTYPES:
            raise OperandTypeError(
                f"{operator}: {name} has dtype {short_name(tensor.dtype)}",
                remedy=f"convert {name} to one of {', '.join(map(short_name, _DTYPES))}",
            )
        if tensor.dtype != q.dtype:
            raise OperandTypeError(
                f"{operator}: {name} is {short_name(tensor.dtype)}, q is {short_name(q.dtype)}",
                remedy=f"convert one of them, such as {name}.to(q.dtype)",
            )
    checks.require_float(operator, sink=sink)


def _check_shapes(operator: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    seen = {name: tuple(tensor.shape) for name, tensor in (("q", q), ("k", k), ("v", v))}
    if not q.dim() == k.dim() == v.dim() == 4:
        raise ShapeError(
            f"{operator}: q, k and v are not (batch, length, heads, size)",
            values=seen,
            remedy="add the missing dimensions",
        )
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ShapeError(
            f"{operator}: batch, length, heads or size of q, k and v do not fit together",
            values=seen,
            remedy="q is (B, S, H, D), k (B, Skv, Hkv, D), v (B, Skv, Hkv, Dv)",
        )
    heads, heads_kv = q.shape[2], k.shape[2]
    if heads and (heads_kv == 0 or heads % heads_kv):
        raise ShapeError(
            f"{operator}: {heads} heads of q do not share {heads_kv} heads of k",
            values=seen,
            remedy="make the number of heads of q a multiple of that of k",
        )
    if (q.shape[3], v.shape[3]) not in HEADS:
        raise ShapeError(
            f"{operator}: no kernel has heads of {q.shape[3]} and values of {v.shape[3]} elements",
            remedy=f"pad to one of {', '.join(f'{d}/{e}' for d, e in HEADS)} with zeros and give scale",
        )
    if max(q.shape[0], q.shape[2]) > _MOST or max(q.shape[1], k.shape[1]) > _LONGEST:
        raise ShapeError(
            f"{operator}: more than {_MOST} batches or heads, or {_LONGEST} rows",
            values=seen,
            remedy="call it on parts",
        )


def laid_out(x: torch.Tensor) -> torch.Tensor:
    """``x`` with stride 1 along its last dimension, all else in steps of 16 bytes; a dense copy where it is not so."""
    step = ACCESS_BYTES // x.element_size()
    strides = [stride for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True) if size > 1]
    fits = x.stride(-1) == 1 and all(stride > 0 and stride % step == 0 for stride in strides)
    if fits and (x.is_meta or x.data_ptr() % ACCESS_BYTES == 0):
        return x
    return x.clone(memory_format=torch.contiguous_format)
