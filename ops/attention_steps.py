"""Steps that the attention programs share: which blocks of keys a block of queries sees, and the masked scores."""

from __future__ import annotations

from typing import Any

from tilewright.dsl import language as T

LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453
ROWS = T.GemmWarpPolicy.FullRow  # a row of scores stays with one warp, as its softmax needs


def grid_of(packed: bool, s: Any, rows: Any, longest: Any, tile: int, heads: Any) -> tuple[Any, Any, Any]:
    """Blocks along a sequence's rows, heads, and sequences."""
    return T.ceildiv(longest if packed else rows, tile), heads, s.boundaries - 1 if packed else s.batch


def place_of(packed: bool, z: Any, s: Any, starts_q: Any, starts_k: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Where the sequences of grid row ``z`` lie: index along the batch, first query, first key, and how many of each.

    Packed tensors are one batch of rows; sequence z has rows starts[z] to starts[z + 1].
    """
    if not packed:
        return z, 0, 0, s.queries, s.keys
    queries, keys = (opaque(starts[z + 1] - starts[z]) for starts in (starts_q, starts_k))
    return 0, starts_q[z], starts_k[z], queries, keys


def opaque(value: Any) -> Any:
    """A variable of the kernel with this value: every pass would carry the expression along and reason about it.

    Lowering the gradient of keys takes 9 instead of 29 seconds so, mostly in ``tirx.Simplify``.
    """
    return T.alloc_var("int32", init=value)


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

    Without a band all blocks are seen. At least one is returned, for what is loaded ahead of the loop over them is
    waited for inside; keys that are not seen weigh nothing.
    """
    if not banded:
        return 0, opaque(T.if_then_else(row < queries, T.max(1, T.ceildiv(keys, tile_n)), 1))
    ahead = keys - queries
    first = T.max(0, row + ahead - left) // tile_n
    last = T.min(keys, row + tile_m + ahead + right)
    return first, opaque(T.if_then_else(row < queries, T.max(1, T.ceildiv(last, tile_n) - first), 1))


@T.macro
def masked_scores(
    scores: Any,
    band: tuple[Any, Any, Any, Any, Any, Any],
    log2_scale: Any,
    cap: Any,
    capped: bool,
    banded: bool,
) -> None:
    """Scores of a tile: scaled, capped, -inf where a key is not seen.

    ``band`` holds the tile's first query and key, how many there are of each, and the band's left and right.
    """
    m, n = scores.shape
    row, column, queries, keys, left, right = band
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

    Without a band all blocks see them. At least one is returned, as by ``visible_blocks``.
    """
    if not banded:
        return 0, opaque(T.if_then_else(column < keys, T.max(1, T.ceildiv(queries, tile_m)), 1))
    ahead = keys - queries
    first = T.max(0, column - ahead - right) // tile_m
    last = T.min(queries, column + tile_n - ahead + left)
    return opaque(first), opaque(T.if_then_else(column < keys, T.max(1, T.ceildiv(last, tile_m) - first), 1))


@T.macro
def score_gradients(
    p: Any,
    slope: Any,
    lse: Any,
    band: tuple[Any, Any, Any, Any, Any, Any],
    log2_scale: Any,
    cap: Any,
    capped: bool,
    banded: bool,
    transposed: bool,
) -> None:
    """From scores to probabilities, 0 where a key is not seen; ``slope`` becomes the derivative of the soft cap.

    ``p`` is (queries, keys) of a tile, or ``transposed``; ``lse`` its rows' (or columns') logarithms; ``band`` the
    tile's first query and key, how many there are of each, and the band's left and right.
    """
    m, n = p.shape
    row, column, queries, keys, left, right = band
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
def load_rows(vector: Any, source: Any, batch: Any, head: Any, start: Any, row: Any, length: Any) -> None:
    """Vector = source[batch, head, start + row...], 0 from ``length`` rows on; element by element: nothing aligns."""
    for x in T.Parallel(vector.shape[0]):
        vector[x] = T.if_then_else(row + x < length, source[batch, head, start + row + x], 0.0)


@T.macro
def store_rows(tile: Any, target: Any, batch: Any, head: Any, start: Any, row: Any, length: Any, packed: bool) -> None:
    """Target[batch, start + row..., head] = tile; of packed rows only those of the sequence, for others follow it."""
    m, n = tile.shape
    if packed:
        for x, y in T.Parallel(m, n):
            if row + x < length:
                target[batch, start + row + x, head, y] = tile[x, y]
    else:
        T.copy(tile, target[batch, row : row + m, head, 0:n])


def load_tile(tile: Any, source: Any, batch: Any, head: Any, start: Any, row: Any, length: Any, guarded: bool) -> Any:
    """Tile = source[batch, start + row..., head], where sequences of ``length`` rows follow one another.

    A factor that is summed over must hold zeros behind its sequence, for there lies the next one, and its NaN times a
    weight of 0 is NaN: such a load is ``guarded``, without TMA, which would read on. No macro: TileLang would bind
    ``start`` to a variable outside the producer warp that copies.
    """
    if guarded:
        return _load_guarded(tile, source, batch, head, start, row, length)
    return T.copy(source[batch, start + row : start + row + tile.shape[0], head, 0 : tile.shape[1]], tile)


@T.macro
def _load_guarded(tile: Any, source: Any, batch: Any, head: Any, start: Any, row: Any, length: Any) -> None:
    for x, y in T.Parallel(*tile.shape):
        tile[x, y] = T.if_then_else(row + x < length, source[batch, start + row + x, head, y], 0.0)


@T.macro
def scaled(tile: Any, scale: Any) -> None:
    """Tile = tile scale."""
    for x, y in T.Parallel(*tile.shape):
        tile[x, y] = tile[x, y] * scale
