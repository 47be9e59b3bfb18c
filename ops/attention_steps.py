# mypy: disable-error-code="no-untyped-def"
"""Steps that the attention programs share: which blocks of keys a block of queries sees, and the masked scores."""

from __future__ import annotations

from typing import Any

from tilewright.dsl import language as T


def visible_blocks(row, tile_m, tile_n, queries, keys, left, right, banded) -> tuple[Any, Any]:
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
def masked_scores(scores, row, column, queries, keys, log2_scale, cap, left, right, capped, banded):
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


def seeing_blocks(column, tile_n, tile_m, queries, keys, left, right, banded) -> tuple[Any, Any]:
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
    p, slope, lse, row, column, queries, keys, log2_scale, cap, left, right, capped, banded, transposed
):
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
