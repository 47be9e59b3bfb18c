"""Rotary position embedding of queries and keys, whole or partial, in new tensors or in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tilewright.runtime import register_operator, short_name

from . import checks
from .errors import OperandTypeError, OptionError, ShapeError
from .kernels import call, kernel_of
from .rope_program import rope_rotate
from .rows import ACCESS_BYTES

_HEADS = 16  # heads of one token that a block rotates at most

_ARGUMENTS = "Tensor cos, Tensor sin, bool interleaved=False, Tensor? positions=None, bool inverse=False"
SCHEMA = f"(Tensor q, Tensor k, {_ARGUMENTS}) -> (Tensor, Tensor)"
_INPLACE_SCHEMA = f"(Tensor(a!) q, Tensor(b!) k, {_ARGUMENTS}) -> ()"


def _check(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: Any) -> None:
    checks.require_float("rope", q=q, k=k, cos=cos, sin=sin)
    for name, tensor in (("q", q), ("k", k)):
        if tensor.dim() != 4 or tensor.shape[:2] != q.shape[:2] or tensor.shape[3] != q.shape[3]:
            raise ShapeError(
                "rope: q and k are not (B, S, H, D) with the same B, S and D",
                values={"q": tuple(q.shape), "k": tuple(k.shape)},
                remedy=f"pass {name} with four dimensions; only the number of heads may differ",
            )
    if k.dtype != q.dtype:
        raise OperandTypeError(
            f"rope: k is {short_name(k.dtype)}, q is {short_name(q.dtype)}", remedy="convert one, such as k.to(q.dtype)"
        )
    checks.require_like("rope", "sin", sin, "cos", cos)
    checks.require_device("rope", "q", q, k=k, cos=cos, sin=sin, positions=positions)
    _check_table(q, cos, positions)


def _check_table(q: torch.Tensor, cos: torch.Tensor, positions: torch.Tensor | None) -> None:
    batch, length, _, head = q.shape
    if cos.dim() != 2 or not 1 <= cos.shape[1] <= head // 2:
        raise ShapeError(
            f"rope: cos has shape {tuple(cos.shape)}, which are no tables for heads of {head}",
            remedy=f"pass (P, R / 2) or (B, S, R / 2) with R / 2 at most {head // 2}, without the repeated half",
        )
    if positions is None:
        if cos.shape[0] < length:
            raise ShapeError(
                f"rope: cos has {cos.shape[0]} rows for {length} tokens", remedy="pass longer tables, or positions"
            )
        return
    if positions.dtype not in (torch.int32, torch.int64):
        raise OperandTypeError(
            f"rope: positions has dtype {short_name(positions.dtype)}", remedy="pass int32 or int64 positions"
        )
    if tuple(positions.shape) not in ((length,), (1, length), (batch, length)):
        raise ShapeError(
            f"rope: positions has shape {tuple(positions.shape)}, the tokens are ({batch}, {length})",
            remedy=f"pass positions of shape ({length},) or ({batch}, {length})",
        )


def bound_values(
    x: torch.Tensor, cos: torch.Tensor, interleaved: bool, placed: bool, inplace: bool
) -> Mapping[str, Any]:
    """What the program for heads x (B, S, H, D) and tables (P, R / 2) is bound to."""
    half, head = cos.shape[1], x.shape[3]
    access = ACCESS_BYTES // x.element_size()
    strides = [stride for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True) if size > 1]
    while access > 1 and not (
        all(number % access == 0 for number in (half, head, *strides))
        and (x.is_meta or x.data_ptr() % (access * x.element_size()) == 0)
    ):
        access //= 2
    heads = min(_HEADS, 1 << (x.shape[2] - 1).bit_length())
    threads = min(128, max(32, 1 << (heads * half // access - 1).bit_length()))
    return {
        "dtype": short_name(x.dtype),
        "table_dtype": short_name(cos.dtype),
        "head": head,
        "half": half,
        "interleaved": interleaved,
        "placed": placed,
        "inplace": inplace,
        "heads": heads,
        "threads": threads,
        "access": access,
    }


def _rotate(
    x: torch.Tensor,
    y: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool,
    positions: torch.Tensor | None,
    inverse: bool,
) -> None:
    """Y = x turned; in place where y is None."""
    if x.numel() == 0:
        return
    if positions is not None:
        positions = positions.to(torch.int32).expand(x.shape[:2]).contiguous()
    values = bound_values(x, cos, interleaved, positions is not None, y is None)
    pitches = (
        (0 if size == 1 else stride) // values["access"] for size, stride in zip(x.shape[:3], x.stride(), strict=False)
    )
    sign = -1.0 if inverse else 1.0
    call(kernel_of(rope_rotate, **values), x, y, cos, sin, positions, sign, x.shape[1], *pitches)


def _forward(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    positions: torch.Tensor | None = None,
    inverse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    results = _fake(q, k, cos, sin, interleaved, positions, inverse)
    cos, sin = cos.contiguous(), sin.contiguous()
    for x, y in zip((q, k), results, strict=True):
        whole = x if x.stride(3) == 1 else x.contiguous()
        _rotate(whole, y, cos, sin, interleaved, positions, inverse)
    return results


def _fake(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    positions: torch.Tensor | None = None,
    inverse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    _check(q, k, cos, sin, positions)
    return tuple(torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k))  # type: ignore[return-value]


def _forward_inplace(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    positions: torch.Tensor | None = None,
    inverse: bool = False,
) -> None:
    _fake_inplace(q, k, cos, sin, interleaved, positions, inverse)
    cos, sin = cos.contiguous(), sin.contiguous()
    for x in (q, k):
        _rotate(x, None, cos, sin, interleaved, positions, inverse)


def _fake_inplace(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    positions: torch.Tensor | None = None,
    inverse: bool = False,
) -> None:
    _check(q, k, cos, sin, positions)
    for name, x in (("q", q), ("k", k)):
        if x.stride(3) != 1:
            raise ShapeError(
                f"rope: {name} has inner stride {x.stride(3)}, in place it must be 1",
                remedy=f"call it with inplace=False, or pass {name}.contiguous()",
            )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, _, cos, sin, ctx.interleaved, positions, ctx.inverse = (*inputs, False, None, False)[:7]
    if cos.requires_grad or sin.requires_grad:
        raise OptionError("rope: cos or sin requires a gradient, and has none", remedy="pass cos.detach()")
    ctx.save_for_backward(cos, sin, positions)


def _backward(ctx: Any, dq: torch.Tensor, dk: torch.Tensor) -> tuple[Any, ...]:
    cos, sin, positions = ctx.saved_tensors
    turned = torch.ops.tilewright.rope(dq, dk, cos, sin, ctx.interleaved, positions, not ctx.inverse)
    return *turned, None, None, None, None, None


_operator = register_operator("rope", SCHEMA, _forward, fake=_fake, backward=_backward, setup_context=_keep)
_inplace_operator = register_operator("rope_", _INPLACE_SCHEMA, _forward_inplace, fake=_fake_inplace)


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    interleaved: bool = False,
    positions: torch.Tensor | None = None,
    inplace: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate pairs of elements of each head by the angles of its token, in float32 (arXiv 2104.09864).

    Args:
        q: (B, S, H, D) of float16, bfloat16 or float32, unit inner stride, any others.
        k: (B, S, Hk, D) of the same dtype.
        cos: (P, R / 2) of any of these dtypes, a row for each position; or (B, S, R / 2), a row for each token. The
            first R elements of each head are turned, the others are kept.
        sin: like cos.
        interleaved: pairs are (2 j, 2 j + 1), else (j, R / 2 + j).
        positions: (S,) or (B, S) of int32 or int64, the row of each token; default its place in the sequence. A token
            whose row the tables lack becomes NaN.
        inplace: write q and k themselves, and return them; no gradient then.

    Returns:
        q and k turned, dense. Differentiable with respect to both, any number of times. Autocast leaves the dtype.

    Raises:
        OperandTypeError: another dtype, or two.
        ShapeError: shapes that do not fit, or an inner stride other than 1 in place.
        DeviceMismatch: tensors on different devices.
        OptionError: tables that require a gradient, or positions for tables that have a row for each token.
    """
    if cos.dim() == 3:
        if positions is not None:
            raise OptionError("rope: positions given for tables with a row for each token", remedy="leave one away")
        if cos.shape != (*q.shape[:2], cos.shape[2]) and cos.shape != (1, q.shape[1], cos.shape[2]):
            raise ShapeError(
                f"rope: cos has shape {tuple(cos.shape)}, the tokens are {tuple(q.shape[:2])}",
                remedy="pass a row for each token, or (P, R / 2)",
            )
        if cos.shape[0] > 1:
            positions = torch.arange(q.shape[0] * q.shape[1], device=q.device).view(q.shape[:2])
        cos, sin = cos.flatten(0, 1), sin.flatten(0, 1)
    if inplace:
        _inplace_operator(q, k, cos, sin, interleaved, positions)
        return q, k
    turned: tuple[torch.Tensor, torch.Tensor] = _operator(q, k, cos, sin, interleaved, positions)
    return turned
