"""Attention, as an online softmax over tiles of keys."""

from __future__ import annotations

import tilewright as tw
from tilewright import language as T


@tw.kernel
def attention(queries=128, keys=192, heads=1, dim=64, stages=2, dtype="float16"):
    """O = softmax(Q K^T / sqrt(dim)) V for (sequence, heads, dim) tensors."""
    scale = dim**-0.5 * 1.44269504
    rows, columns = (queries, heads, dim), (keys, heads, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(rows, dtype), K: T.Tensor(columns, dtype), V: T.Tensor(columns, dtype), O: T.Tensor(rows, dtype)
    ):
        with T.Kernel(queries // 64, heads, threads=128) as (bx, h):
            q = T.alloc_shared((64, dim), dtype)
            k = T.alloc_shared((32, dim), dtype)
            v = T.alloc_shared((32, dim), dtype)
            o = T.alloc_shared((64, dim), dtype)
            s = T.alloc_fragment((64, 32), "float32")
            p = T.alloc_fragment((64, 32), dtype)
            total = T.alloc_fragment((64, dim), "float32")
            largest = T.alloc_fragment((64,), "float32")
            before = T.alloc_fragment((64,), "float32")
            share = T.alloc_fragment((64,), "float32")
            row = T.alloc_fragment((64,), "float32")
            norm = T.alloc_fragment((64,), "float32")
            T.copy(Q[bx * 64 : bx * 64 + 64, h, :], q)
            T.fill(total, 0)
            T.fill(norm, 0)
            T.fill(largest, -T.infinity("float32"))
            for i in T.Pipelined(keys // 32, num_stages=stages):
                T.copy(K[i * 32 : i * 32 + 32, h, :], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(largest, before)
                T.reduce_max(s, largest, dim=1, clear=False)
                for x in T.Parallel(64):
                    share[x] = T.exp2((before[x] - largest[x]) * scale)
                for x, y in T.Parallel(64, 32):
                    s[x, y] = T.exp2((s[x, y] - largest[x]) * scale)
                T.reduce_sum(s, row, dim=1)
                for x in T.Parallel(64):
                    norm[x] = norm[x] * share[x] + row[x]
                T.copy(s, p)
                for x, y in T.Parallel(64, dim):
                    total[x, y] *= share[x]
                T.copy(V[i * 32 : i * 32 + 32, h, :], v)
                T.gemm(p, v, total, policy=T.GemmWarpPolicy.FullRow)
            for x, y in T.Parallel(64, dim):
                total[x, y] /= norm[x]
            T.copy(total, o)
            T.copy(o, O[bx * 64 : bx * 64 + 64, h, :])

    return main
