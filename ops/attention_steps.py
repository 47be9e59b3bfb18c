"""Steps that the attention programs share: which blocks of keys a block of queries sees, and the masked scores."""

from __future__ import annotations

from typing import Any

from tilewright.dsl import language as T

LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453
ROWS = T.GemmWarpPolicy.FullRow  # a row of scores stays with one warp, as its softmax needs


def visible_blocks(
    row: Any,
    tile_m: Any,
    tile_n: Any,
    queries: Any,
    keys: Any,
    left: Any,
    right: Any,
    banded: bool,
) -> tuple[Any, Any]:
    """The first block of keys that queries ``row`` and on see, and how many blocks: those between hold every key seen.

    Without a band all blocks are seen.
    """
    if not banded:
        return 0, T.ceildiv(keys, tile_n)
    ahead = keys - queries
    first = T.max(0, row + ahead - left) // tile_n
    last = T.min(keys, row + tile_m + ahead + right)
    return first, T.max(0, T.ceildiv(last, tile_n) - first)


@T.macro
def masked_scores(
    scores: Any,
    row: Any,
    column: Any,
    queries: Any,
    keys: Any,
    log2_scale: Any,
    cap: Any,
    left: Any,
    right: Any,
    capped: bool,
    banded: bool,
) -> None:
    """Scores of queries ``row`` and on with keys ``column`` and on: scaled, capped, -inf where a key is not seen."""
    m, n = scores.shape
    for x, y in T.Parallel(m, n):
        if capped:
            scores[x, y] = T.tanh(scores[x, y] * log2_scale / cap) * cap
        else:
            scores[x, y] = scores[x, y] * log2_scale
        if banded:
            scores[x, y] = T.if_then_else(
                (column + y < keys)
                & (column + y <= row + x + keys - queries + right)
                & (column + y >= row + x + keys - queries - left),
                scores[x, y],
                -T.infinity("float32"),
            )
        else:
            scores[x, y] = T.if_then_else(column + y < keys, scores[x, y], -T.infinity("float32"))


@T.macro
def online_softmax(
    scores: Any, weights: Any, total: Any, top: Any, before: Any, shrink: Any, part: Any, norm: Any
) -> None:
    """Scores to weights 2^(score - top), where ``top`` is each row's largest so far; total and norm shrink to it."""
    m, n = scores.shape
    T.copy(top, before)
    T.reduce_max(scores, top, dim=1, clear=False)
    for x in T.Parallel(m):
        shrink[x] = T.exp2(before[x] - top[x])
    for x, y in T.Parallel(m, n):
        scores[x, y] = T.exp2(scores[x, y] - top[x])
    T.reduce_sum(scores, part, dim=1)
    for x in T.Parallel(m):
        norm[x] = norm[x] * shrink[x] + part[x]
    T.copy(scores, weights)
    for x, y in T.Parallel(*total.shape):
        total[x, y] = total[x, y] * shrink[x]


@T.macro
def add_sink(sink: Any, total: Any, top: Any, before: Any, shrink: Any, norm: Any) -> None:
    """One more score in each row, without a value."""
    for x in T.Parallel(top.shape[0]):
        before[x] = top[x]
        top[x] = T.max(top[x], sink * LOG2_E)
        shrink[x] = T.exp2(before[x] - top[x])
        norm[x] = norm[x] * shrink[x] + T.exp2(sink * LOG2_E - top[x])
    for x, y in T.Parallel(*total.shape):
        total[x, y] = total[x, y] * shrink[x]


@T.macro
def finish_rows(total: Any, top: Any, norm: Any) -> None:
    """Total / norm, 0 where a row saw no key; ``top`` becomes the natural logarithm of the softmax's denominator."""
    for x, y in T.Parallel(*total.shape):
        total[x, y] = T.if_then_else(norm[x] == 0, 0.0, total[x, y] / norm[x])
    for x in T.Parallel(top.shape[0]):
        top[x] = T.if_then_else(norm[x] == 0, -T.infinity("float32"), (top[x] + T.log2(norm[x])) * LN_2)


def seeing_blocks(
    column: Any,
    tile_n: Any,
    tile_m: Any,
    queries: Any,
    keys: Any,
    left: Any,
    right: Any,
    banded: bool,
) -> tuple[Any, Any]:
    """The first block of queries that see keys ``column`` and on, and how many blocks: those between hold all of them.

    Without a band all blocks see them.
    """
    if not banded:
        return 0, T.ceildiv(queries, tile_m)
    ahead = keys - queries
    first = T.max(0, column - ahead - right) // tile_m
    last = T.min(queries, column + tile_n - ahead + left)
    return first, T.max(0, T.ceildiv(last, tile_m) - first)


@T.macro
def score_gradients(
    p: Any,
    slope: Any,
    lse: Any,
    row: Any,
    column: Any,
    queries: Any,
    keys: Any,
    log2_scale: Any,
    cap: Any,
    left: Any,
    right: Any,
    capped: bool,
    banded: bool,
    transposed: bool,
) -> None:
    """From scores to probabilities, 0 where a key is not seen; ``slope`` becomes the derivative of the soft cap.

    ``p`` is (queries, keys) of a tile, or ``transposed``; ``lse`` its rows' (or columns') logarithms.
    """
    m, n = p.shape
    for a, b in T.Parallel(m, n):
        x = row + (b if transposed else a)
        y = column + (a if transposed else b)
        seen = (y < keys) & (x < queries)
        if banded:
            seen = seen & (y <= x + keys - queries + right) & (y >= x + keys - queries - left)
        if capped:
            slope[a, b] = T.tanh(p[a, b] * log2_scale / cap)
            p[a, b] = slope[a, b] * cap
            slope[a, b] = 1.0 - slope[a, b] * slope[a, b]
        else:
            p[a, b] = p[a, b] * log2_scale
        p[a, b] = T.if_then_else(seen, T.exp2(p[a, b] - lse[b if transposed else a] * 1.4426950408889634), 0.0)


@T.macro
def through_softmax(ds: Any, p: Any, slope: Any, delta: Any, capped: bool, transposed: bool) -> None:
    """Ds = p (ds - delta), times the derivative of the soft cap."""
    for a, b in T.Parallel(*ds.shape):
        ds[a, b] = p[a, b] * (ds[a, b] - delta[b if transposed else a])
        if capped:
            ds[a, b] = ds[a, b] * slope[a, b]


@T.macro
def load_rows(vector: Any, source: Any, batch: Any, head: Any, row: Any, length: Any) -> None:
    """Vector = source[batch, head, row...], 0 beyond ``length``; element by element, for its rows align to nothing."""
    for x in T.Parallel(vector.shape[0]):
        vector[x] = T.if_then_else(row + x < length, source[batch, head, row + x], 0.0)


@T.macro
def scaled(tile: Any, scale: Any) -> None:
    """Tile = tile scale."""
    for x, y in T.Parallel(*tile.shape):
        tile[x, y] = tile[x, y] * scale
