# mypy: disable-error-code="valid-type,name-defined"
"""Attention forward: one block of queries against the keys it sees, online softmax in base 2 on the way."""

from __future__ import annotations

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .attention_steps import (
    ROWS,
    add_sink,
    finish_rows,
    grid_of,
    load_tile,
    masked_scores,
    online_softmax,
    place_of,
    store_rows,
    visible_blocks,
)
from .attention_symbols import attention_symbols

LOWEST = -3.4028234663852886e38  # finite, so that the difference of two of them is a number


@kernel
def attention_forward(
    dtype: str = "float16",
    dim: int = 128,
    dim_v: int = 128,
    banded: bool = False,
    capped: bool = False,
    sunk: bool = False,
    packed: bool = False,
    tile_m: int = 128,
    tile_n: int = 128,
    stages: int = 2,
    threads: int = 256,
) -> Any:
    """out = softmax(scale q k^T) v for each head, and lse, the natural logarithm of the softmax's denominator.

    q is (B, S, H, dim), k (B, Skv, Hkv, dim) and v (B, Skv, Hkv, dim_v) with any strides that count 16-byte accesses;
    out (B, S, H, dim_v) and lse (B, H, S) are dense. ``group`` query heads share a head of keys. With ``banded`` query
    i sees keys i + Skv - S - left to i + Skv - S + right. ``log2_scale`` is the scale times log2(e); with ``capped``
    scores are cap tanh(score scale / cap); with ``sunk`` sink (H,) is one more score of each row, without a value.
    With ``packed`` B is 1; sequence z has queries starts_q[z] to starts_q[z + 1], at most ``longest``, and keys alike.
    """
    s = attention_symbols(dim, dim_v)

    @T.prim_func
    def main(
        q: T.StridedTensor(s.shape_q, s.strides_q, dtype),
        k: T.StridedTensor(s.shape_k, s.strides_k, dtype),
        v: T.StridedTensor(s.shape_v, s.strides_v, dtype),
        sink: T.Tensor((s.heads,), "float32") if sunk else False,
        starts_q: T.Tensor((s.boundaries,), "int32") if packed else False,
        starts_k: T.Tensor((s.boundaries,), "int32") if packed else False,
        out: T.Tensor((s.batch, s.queries, s.heads, dim_v), dtype),
        lse: T.Tensor((s.batch, s.heads, s.queries), "float32"),
        q_batch: s.q.batch,
        q_row: s.q.row,
        q_head: s.q.head,
        k_batch: s.k.batch,
        k_row: s.k.row,
        k_head: s.k.head,
        v_batch: s.v.batch,
        v_row: s.v.row,
        v_head: s.v.head,
        group: T.int32,
        longest: T.int32 if packed else False,
        log2_scale: T.float32,
        cap: T.float32 if capped else False,
        left: T.int32 if banded else False,
        right: T.int32 if banded else False,
    ) -> None:
        with T.Kernel(*grid_of(packed, s, s.queries, longest, tile_m, s.heads), threads=threads) as (bx, by, bz):
            q_s = T.alloc_shared((tile_m, dim), dtype)
            k_s = T.alloc_shared((tile_n, dim), dtype)
            v_s = T.alloc_shared((tile_n, dim_v), dtype)
            out_s = T.alloc_shared((tile_m, dim_v), dtype)
            scores = T.alloc_fragment((tile_m, tile_n), "float32")
            weights = T.alloc_fragment((tile_m, tile_n), dtype)
            total = T.alloc_fragment((tile_m, dim_v), "float32")
            top = T.alloc_fragment((tile_m,), "float32")
            before = T.alloc_fragment((tile_m,), "float32")
            shrink = T.alloc_fragment((tile_m,), "float32")
            part = T.alloc_fragment((tile_m,), "float32")
            norm = T.alloc_fragment((tile_m,), "float32")
            batch, start_q, start_k, queries, keys = place_of(packed, bz, s, starts_q, starts_k)
            row = bx * tile_m
            if threads == 256:  # two warpgroups beside one that only copies: TileLang leaves the shares open here
                T.annotate_producer_reg_dealloc(24)
                T.annotate_consumer_reg_alloc(240)
            first, count = visible_blocks(row, tile_m, tile_n, queries, keys, left, right, banded)
            load_tile(q_s, q, batch, by, start_q, row, queries, False)
            T.clear(total)
            T.clear(norm)
            T.fill(top, LOWEST)
            for i in T.Pipelined(count, num_stages=stages):
                column = (first + i) * tile_n
                load_tile(k_s, k, batch, by // group, start_k, column, keys, False)
                T.gemm(q_s, k_s, scores, transpose_B=True, clear_accum=True, policy=ROWS)
                band = (row, column, queries, keys, left, right)
                masked_scores(scores, band, log2_scale, cap, capped, banded)
                online_softmax(scores, weights, total, top, before, shrink, part, norm)
                # load_tile's guarded copy, written out: a macro binds its arguments outside the warp that loads
                if packed:
                    for x, y in T.Parallel(tile_n, dim_v):
                        v_s[x, y] = T.if_then_else(
                            (first + i) * tile_n + x < keys,
                            v[batch, start_k + (first + i) * tile_n + x, by // group, y],
                            0.0,
                        )
                else:
                    T.copy(v[batch, column : column + tile_n, by // group, 0:dim_v], v_s)
                T.gemm(weights, v_s, total, policy=ROWS)
            if sunk:
                add_sink(sink[by], total, top, before, shrink, norm)
            finish_rows(total, top, norm)
            T.copy(total, out_s)
            store_rows(out_s, out, batch, by, start_q, row, queries, packed)
            for x in T.Parallel(tile_m):
                if row + x < queries:
                    lse[batch, by, start_q + row + x] = top[x]

    return main.with_attr("global_symbol", f"attention_{dim}_{dim_v}_{tile_m}x{tile_n}")
