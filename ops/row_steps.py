"""Steps that programs over rows of logits share: a row is taken in pieces, its running maximum and sum kept."""

from typing import Any

from tilewright.dsl import language as T


@T.macro
def begin_sum(top: Any, total: Any) -> None:
    """The maximum and the sum of exponentials of no columns."""
    T.fill(top, -T.infinity("float32"))
    T.clear(total)


@T.macro
def logits_of(x_l: Any, v: Any, column: Any, n: Any, scale: Any) -> None:
    """V = scale x_l in float32, minus infinity from column n on; the piece starts at ``column``."""
    for i, j in T.Parallel(*x_l.shape):
        v[i, j] = T.if_then_else(column + j < n, T.cast(x_l[i, j], "float32") * scale, -T.infinity("float32"))


@T.macro
def add_piece(v: Any, total: Any) -> None:
    """Total += the sum of each row of v."""
    part = T.alloc_fragment(total.shape, "float32")
    T.reduce_sum(v, part, dim=1)
    for i in T.Parallel(total.shape[0]):
        total[i] = total[i] + part[i]


@T.macro
def fold_piece(v: Any, top: Any, total: Any) -> None:
    """Fold a piece into the maximum and the sum of exp(logit - maximum); v becomes its exponentials.

    A piece of minus infinities alone adds nothing, so that it may stand before others; NaN and plus infinity give NaN.
    """
    part = T.alloc_fragment(top.shape, "float32")
    before = T.alloc_fragment(top.shape, "float32")
    T.reduce_max(v, part, dim=1)
    for i in T.Parallel(top.shape[0]):
        before[i] = top[i]
        top[i] = T.max(top[i], part[i])
    for i in T.Parallel(top.shape[0]):
        total[i] = total[i] * T.if_then_else(before[i] == top[i], 1.0, T.exp(before[i] - top[i]))
    for i, j in T.Parallel(*v.shape):
        v[i, j] = T.if_then_else(v[i, j] == -T.infinity("float32"), 0.0, T.exp(v[i, j] - top[i]))
    add_piece(v, total)
