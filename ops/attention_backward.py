# mypy: disable-error-code="valid-type,name-defined"
"""Attention backward: one program for the gradients of keys and values, one for those of queries; no atomics.

With p the probabilities, recomputed from the forward pass's lse, and delta the row sums of dout out (minus the gradient
of lse): dv = p^T dout, ds = p (dout v^T - delta), dk = scale ds^T q, dq = scale ds k (arXiv 2205.14135, algorithm 4).
"""

from __future__ import annotations

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .attention_steps import ROWS, load_rows, scaled, score_gradients, seeing_blocks, through_softmax, visible_blocks
from .attention_symbols import attention_symbols, strides


@kernel
def attention_keys_backward(
    dtype: str = "float16",
    dim: int = 128,
    dim_v: int = 128,
    banded: bool = False,
    capped: bool = False,
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
        log2_scale: T.float32,
        scale: T.float32,
        cap: T.float32 if capped else False,
        left: T.int32 if banded else False,
        right: T.int32 if banded else False,
    ) -> None:
        with T.Kernel(T.ceildiv(s.keys, tile_n), s.heads_kv, s.batch, threads=threads) as (bx, by, bz):
            k_s = T.alloc_shared((tile_n, dim), dtype)
            v_s = T.alloc_shared((tile_n, dim_v), dtype)
            q_s = T.alloc_shared((tile_m, dim), dtype)
            d_s = T.alloc_shared((tile_m, dim_v), dtype)
            lse_s = T.alloc_shared((tile_m,), "float32")
            delta_s = T.alloc_shared((tile_m,), "float32")
            p = T.alloc_fragment((tile_n, tile_m), "float32")
            ds = T.alloc_fragment((tile_n, tile_m), "float32")
            slope = T.alloc_fragment((tile_n, tile_m), "float32")
            low = T.alloc_fragment((tile_n, tile_m), dtype)
            dk_l = T.alloc_fragment((tile_n, dim), "float32")
            dv_l = T.alloc_fragment((tile_n, dim_v), "float32")
            first, count = seeing_blocks(bx * tile_n, tile_n, tile_m, s.queries, s.keys, left, right, banded)
            T.copy(k[bz, bx * tile_n : (bx + 1) * tile_n, by, 0:dim], k_s)
            T.copy(v[bz, bx * tile_n : (bx + 1) * tile_n, by, 0:dim_v], v_s)
            T.clear(dk_l)
            T.clear(dv_l)
            for i in T.Pipelined(count * group, num_stages=stages):
                row = (first + i % count) * tile_m
                head = by * group + i // count
                T.copy(q[bz, row : row + tile_m, head, 0:dim], q_s)
                T.gemm(k_s, q_s, p, transpose_B=True, clear_accum=True, policy=ROWS)
                load_rows(lse_s, lse, bz, head, row, s.queries)
                load_rows(delta_s, delta, bz, head, row, s.queries)
                score_gradients(
                    p,
                    slope,
                    lse_s,
                    row,
                    bx * tile_n,
                    s.queries,
                    s.keys,
                    log2_scale,
                    cap,
                    left,
                    right,
                    capped,
                    banded,
                    True,
                )
                T.copy(dout[bz, row : row + tile_m, head, 0:dim_v], d_s)
                if want_v:
                    T.copy(p, low)
                    T.gemm(low, d_s, dv_l, policy=ROWS)
                if want_k:
                    T.gemm(v_s, d_s, ds, transpose_B=True, clear_accum=True, policy=ROWS)
                    through_softmax(ds, p, slope, delta_s, capped, True)
                    T.copy(ds, low)
                    T.gemm(low, q_s, dk_l, policy=ROWS)
            if want_k:
                scaled(dk_l, scale)
                T.copy(dk_l, dk[bz, bx * tile_n : (bx + 1) * tile_n, by, 0:dim])
            if want_v:
                T.copy(dv_l, dv[bz, bx * tile_n : (bx + 1) * tile_n, by, 0:dim_v])

    return main.with_attr("global_symbol", f"attention_keys_backward_{dim}_{dim_v}_{tile_m}x{tile_n}")


@kernel
def attention_queries_backward(
    dtype: str = "float16",
    dim: int = 128,
    dim_v: int = 128,
    banded: bool = False,
    capped: bool = False,
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
        log2_scale: T.float32,
        scale: T.float32,
        cap: T.float32 if capped else False,
        left: T.int32 if banded else False,
        right: T.int32 if banded else False,
    ) -> None:
        with T.Kernel(T.ceildiv(s.queries, tile_m), s.heads, s.batch, threads=threads) as (bx, by, bz):
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
            first, count = visible_blocks(bx * tile_m, tile_m, tile_n, s.queries, s.keys, left, right, banded)
            T.copy(q[bz, bx * tile_m : (bx + 1) * tile_m, by, 0:dim], q_s)
            T.copy(dout[bz, bx * tile_m : (bx + 1) * tile_m, by, 0:dim_v], d_s)
            load_rows(lse_l, lse, bz, by, bx * tile_m, s.queries)
            load_rows(delta_l, delta, bz, by, bx * tile_m, s.queries)
            T.clear(dq_l)
            for i in T.Pipelined(count, num_stages=stages):
                column = (first + i) * tile_n
                T.copy(k[bz, column : column + tile_n, by // group, 0:dim], k_s)
                T.copy(v[bz, column : column + tile_n, by // group, 0:dim_v], v_s)
                T.gemm(q_s, k_s, p, transpose_B=True, clear_accum=True, policy=ROWS)
                score_gradients(
                    p,
                    slope,
                    lse_l,
                    bx * tile_m,
                    column,
                    s.queries,
                    s.keys,
                    log2_scale,
                    cap,
                    left,
                    right,
                    capped,
                    banded,
                    False,
                )
                T.gemm(d_s, v_s, ds, transpose_B=True, clear_accum=True, policy=ROWS)
                through_softmax(ds, p, slope, delta_l, capped, False)
                T.copy(ds, low)
                T.gemm(low, k_s, dq_l, policy=ROWS)
            scaled(dq_l, scale)
            T.copy(dq_l, dq[bz, bx * tile_m : (bx + 1) * tile_m, by, 0:dim])

    return main.with_attr("global_symbol", f"attention_queries_backward_{dim}_{dim_v}_{tile_m}x{tile_n}")
