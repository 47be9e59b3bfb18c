# mypy: disable-error-code="valid-type,name-defined"
"""Attention forward: one block of queries against the keys it sees, online softmax in base 2 on the way."""

from __future__ import annotations

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .attention_steps import ROWS, add_sink, finish_rows, masked_scores, online_softmax, visible_blocks
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
    """
    s = attention_symbols(dim, dim_v)

    @T.prim_func
    def main(
        q: T.StridedTensor(s.shape_q, s.strides_q, dtype),
        k: T.StridedTensor(s.shape_k, s.strides_k, dtype),
        v: T.StridedTensor(s.shape_v, s.strides_v, dtype),
        sink: T.Tensor((s.heads,), "float32") if sunk else False,
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
        log2_scale: T.float32,
        cap: T.float32 if capped else False,
        left: T.int32 if banded else False,
        right: T.int32 if banded else False,
    ) -> None:
        with T.Kernel(T.ceildiv(s.queries, tile_m), s.heads, s.batch, threads=threads) as (bx, by, bz):
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
            first, count = visible_blocks(bx * tile_m, tile_m, tile_n, s.queries, s.keys, left, right, banded)
            T.copy(q[bz, bx * tile_m : (bx + 1) * tile_m, by, 0:dim], q_s)
            T.clear(total)
            T.clear(norm)
            T.fill(top, LOWEST)
            for i in T.Pipelined(count, num_stages=stages):
                T.copy(k[bz, (first + i) * tile_n : (first + i + 1) * tile_n, by // group, 0:dim], k_s)
                T.gemm(q_s, k_s, scores, transpose_B=True, clear_accum=True, policy=ROWS)
                masked_scores(
                    scores,
                    bx * tile_m,
                    (first + i) * tile_n,
                    s.queries,
                    s.keys,
                    log2_scale,
                    cap,
                    left,
                    right,
                    capped,
                    banded,
                )
                online_softmax(scores, weights, total, top, before, shrink, part, norm)
                T.copy(v[bz, (first + i) * tile_n : (first + i + 1) * tile_n, by // group, 0:dim_v], v_s)
                T.gemm(weights, v_s, total, policy=ROWS)
            if sunk:
                add_sink(sink[by], total, top, before, shrink, norm)
            finish_rows(total, top, norm)
            T.copy(top, lse[bz, by, bx * tile_m : (bx + 1) * tile_m])
            T.copy(total, out_s)
            T.copy(out_s, out[bz, bx * tile_m : (bx + 1) * tile_m, by, 0:dim_v])

    return main.with_attr("global_symbol", f"attention_{dim}_{dim_v}_{tile_m}x{tile_n}")
