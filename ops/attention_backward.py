# mypy: disable-error-code="valid-type,name-defined"
"""Attention backward: one program for the gradients of keys and values, one for those of queries; no atomics.

With p the probabilities, recomputed from the forward pass's lse, and delta the row sums of dout out (minus the gradient
of lse): dv = p^T dout, ds = p (dout v^T - delta), dk = scale ds^T q, dq = scale ds k (arXiv 2205.14135, algorithm 4).
"""

from __future__ import annotations

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .attention_steps import (
    ROWS,
    grid_of,
    load_rows,
    load_tile,
    place_of,
    scaled,
    score_gradients,
    seeing_blocks,
    store_rows,
    through_softmax,
    visible_blocks,
)
from .attention_symbols import attention_symbols, strides


@kernel
def attention_keys_backward(
    dtype: str = "float16",
    dim: int = 128,
    dim_v: int = 128,
    banded: bool = False,
    capped: bool = False,
    packed: bool = False,
    want_k: bool = True,
    want_v: bool = True,
    tile_m: int = 64,
    tile_n: int = 64,
    stages: int = 1,
    threads: int = 128,
) -> Any:
    """dk (B, Skv, Hkv, dim) and dv (B, Skv, Hkv, dim_v): a block of keys against all queries of its group that see it.

    Tensors and scalars as in ``attention_forward``; dout (B, S, H, dim_v) is strided, lse and delta (B, H, S) are
    dense. The queries of a group are added in order, so the result does not depend on the run.
    """
    s = attention_symbols(dim, dim_v)
    d = strides("d")

    @T.prim_func
    def main(
        q: T.StridedTensor(s.shape_q, s.strides_q, dtype),
        k: T.StridedTensor(s.shape_k, s.strides_k, dtype),
        v: T.StridedTensor(s.shape_v, s.strides_v, dtype),
        dout: T.StridedTensor((s.batch, s.queries, s.heads, dim_v), d.extents, dtype),
        lse: T.Tensor((s.batch, s.heads, s.queries), "float32"),
        delta: T.Tensor((s.batch, s.heads, s.queries), "float32"),
        starts_q: T.Tensor((s.boundaries,), "int32") if packed else False,
        starts_k: T.Tensor((s.boundaries,), "int32") if packed else False,
        dk: T.Tensor((s.batch, s.keys, s.heads_kv, dim), dtype) if want_k else False,
        dv: T.Tensor((s.batch, s.keys, s.heads_kv, dim_v), dtype) if want_v else False,
        q_batch: s.q.batch,
        q_row: s.q.row,
        q_head: s.q.head,
        k_batch: s.k.batch,
        k_row: s.k.row,
        k_head: s.k.head,
        v_batch: s.v.batch,
        v_row: s.v.row,
        v_head: s.v.head,
        d_batch: d.batch,
        d_row: d.row,
        d_head: d.head,
        group: T.int32,
        longest: T.int32 if packed else False,
        log2_scale: T.float32,
        scale: T.float32,
        cap: T.float32 if capped else False,
        left: T.int32 if banded else False,
        right: T.int32 if banded else False,
    ) -> None:
        with T.Kernel(*grid_of(packed, s, s.keys, longest, tile_n, s.heads_kv), threads=threads) as (bx, by, bz):
            k_s = T.alloc_shared((tile_n, dim), dtype)
            v_s = T.alloc_shared((tile_n, dim_v), dtype)
            q_s = T.alloc_shared((tile_m, dim), dtype)
            d_s = T.alloc_shared((tile_m, dim_v), dtype)
            lse_l = T.alloc_fragment((tile_m,), "float32")  # in shared memory a producer warp would refill it too early
            p = T.alloc_fragment((tile_n, tile_m), "float32")
            slope = T.alloc_fragment((tile_n, tile_m), "float32")
            low = T.alloc_fragment((tile_n, tile_m), dtype)
            batch, start_q, start_k, queries, keys = place_of(packed, bz, s, starts_q, starts_k)
            column = bx * tile_n
            first, count = seeing_blocks(column, tile_n, tile_m, queries, keys, left, right, banded)
            load_tile(k_s, k, batch, by, start_k, column, keys, False)
            if want_k:
                ds = T.alloc_fragment((tile_n, tile_m), "float32")
                delta_l = T.alloc_fragment((tile_m,), "float32")
                dk_l = T.alloc_fragment((tile_n, dim), "float32")
                load_tile(v_s, v, batch, by, start_k, column, keys, False)
                T.clear(dk_l)
            if want_v:
                dv_l = T.alloc_fragment((tile_n, dim_v), "float32")
                T.clear(dv_l)
            for i in T.Pipelined(count * group, num_stages=stages):
                row = (first + i % count) * tile_m
                head = by * group + i // count
                load_tile(q_s, q, batch, head, start_q, row, queries, packed)
                T.gemm(k_s, q_s, p, transpose_B=True, clear_accum=True, policy=ROWS)
                load_rows(lse_l, lse, batch, head, start_q, row, queries)
                band = (row, column, queries, keys, left, right)
                score_gradients(p, slope, lse_l, band, log2_scale, cap, capped, banded, True)
                load_tile(d_s, dout, batch, head, start_q, row, queries, packed)
                if want_v:
                    T.copy(p, low)
                    T.gemm(low, d_s, dv_l, policy=ROWS)
                if want_k:
                    load_rows(delta_l, delta, batch, head, start_q, row, queries)
                    T.gemm(v_s, d_s, ds, transpose_B=True, clear_accum=True, policy=ROWS)
                    through_softmax(ds, p, slope, delta_l, capped, True)
                    T.copy(ds, low)
                    T.gemm(low, q_s, dk_l, policy=ROWS)
            if want_k:
                scaled(dk_l, scale)
                store_rows(dk_l, dk, batch, by, start_k, column, keys, packed)
            if want_v:
                store_rows(dv_l, dv, batch, by, start_k, column, keys, packed)

    return main.with_attr("global_symbol", f"attention_keys_backward_{dim}_{dim_v}_{tile_m}x{tile_n}")


@kernel
def attention_queries_backward(
    dtype: str = "float16",
    dim: int = 128,
    dim_v: int = 128,
    banded: bool = False,
    capped: bool = False,
    packed: bool = False,
    tile_m: int = 64,
    tile_n: int = 64,
    stages: int = 1,
    threads: int = 128,
) -> Any:
    """dq (B, S, H, dim): a block of queries against the keys it sees. Arguments as in ``attention_keys_backward``."""
    s = attention_symbols(dim, dim_v)
    d = strides("d")

    @T.prim_func
    def main(
        q: T.StridedTensor(s.shape_q, s.strides_q, dtype),
        k: T.StridedTensor(s.shape_k, s.strides_k, dtype),
        v: T.StridedTensor(s.shape_v, s.strides_v, dtype),
        dout: T.StridedTensor((s.batch, s.queries, s.heads, dim_v), d.extents, dtype),
        lse: T.Tensor((s.batch, s.heads, s.queries), "float32"),
        delta: T.Tensor((s.batch, s.heads, s.queries), "float32"),
        starts_q: T.Tensor((s.boundaries,), "int32") if packed else False,
        starts_k: T.Tensor((s.boundaries,), "int32") if packed else False,
        dq: T.Tensor((s.batch, s.queries, s.heads, dim), dtype),
        q_batch: s.q.batch,
        q_row: s.q.row,
        q_head: s.q.head,
        k_batch: s.k.batch,
        k_row: s.k.row,
        k_head: s.k.head,
        v_batch: s.v.batch,
        v_row: s.v.row,
        v_head: s.v.head,
        d_batch: d.batch,
        d_row: d.row,
        d_head: d.head,
        group: T.int32,
        longest: T.int32 if packed else False,
        log2_scale: T.float32,
        scale: T.float32,
        cap: T.float32 if capped else False,
        left: T.int32 if banded else False,
        right: T.int32 if banded else False,
    ) -> None:
        with T.Kernel(*grid_of(packed, s, s.queries, longest, tile_m, s.heads), threads=threads) as (bx, by, bz):
            q_s = T.alloc_shared((tile_m, dim), dtype)
            d_s = T.alloc_shared((tile_m, dim_v), dtype)
            k_s = T.alloc_shared((tile_n, dim), dtype)
            v_s = T.alloc_shared((tile_n, dim_v), dtype)
            p = T.alloc_fragment((tile_m, tile_n), "float32")
            ds = T.alloc_fragment((tile_m, tile_n), "float32")
            slope = T.alloc_fragment((tile_m, tile_n), "float32")
            low = T.alloc_fragment((tile_m, tile_n), dtype)
            dq_l = T.alloc_fragment((tile_m, dim), "float32")
            lse_l = T.alloc_fragment((tile_m,), "float32")
            delta_l = T.alloc_fragment((tile_m,), "float32")
            batch, start_q, start_k, queries, keys = place_of(packed, bz, s, starts_q, starts_k)
            row = bx * tile_m
            first, count = visible_blocks(row, tile_m, tile_n, queries, keys, left, right, banded)
            load_tile(q_s, q, batch, by, start_q, row, queries, False)
            load_tile(d_s, dout, batch, by, start_q, row, queries, False)
            load_rows(lse_l, lse, batch, by, start_q, row, queries)
            load_rows(delta_l, delta, batch, by, start_q, row, queries)
            T.clear(dq_l)
            for i in T.Pipelined(count, num_stages=stages):
                column = (first + i) * tile_n
                load_tile(k_s, k, batch, by // group, start_k, column, keys, packed)
                load_tile(v_s, v, batch, by // group, start_k, column, keys, packed)
                T.gemm(q_s, k_s, p, transpose_B=True, clear_accum=True, policy=ROWS)
                band = (row, column, queries, keys, left, right)
                score_gradients(p, slope, lse_l, band, log2_scale, cap, capped, banded, False)
                T.gemm(d_s, v_s, ds, transpose_B=True, clear_accum=True, policy=ROWS)
                through_softmax(ds, p, slope, delta_l, capped, False)
                T.copy(ds, low)
                T.gemm(low, k_s, dq_l, policy=ROWS)
            scaled(dq_l, scale)
            store_rows(dq_l, dq, batch, by, start_q, row, queries, packed)

    return main.with_attr("global_symbol", f"attention_queries_backward_{dim}_{dim_v}_{tile_m}x{tile_n}")
