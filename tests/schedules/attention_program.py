"""One attention without a word on threads, stages, memory, order or roles, and what it computes in float64."""

import math

import torch

from tilewright.dsl import kernel
from tilewright.dsl import language as T


@kernel
def attention(batch=1, heads=1, queries=128, keys=256, dim=64, causal=False, tile_m=64, tile_n=64, dtype="float16"):
    scale = math.log2(math.e) / math.sqrt(dim)

    @T.prim_func
    def attention(
        Q: T.Tensor((batch, queries, heads, dim), dtype),
        K: T.Tensor((batch, keys, heads, dim), dtype),
        V: T.Tensor((batch, keys, heads, dim), dtype),
        O: T.Tensor((batch, queries, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(queries, tile_m), heads, batch) as (bx, by, bz):
            q = T.alloc_tile((tile_m, dim), dtype)
            kt = T.alloc_tile((tile_n, dim), dtype)
            vt = T.alloc_tile((tile_n, dim), dtype)
            S = T.alloc_tile((tile_m, tile_n), "float32")
            P = T.alloc_tile((tile_m, tile_n), dtype)
            total = T.alloc_tile((tile_m, dim), "float32")
            top = T.alloc_tile((tile_m,), "float32")
            before = T.alloc_tile((tile_m,), "float32")
            shrink = T.alloc_tile((tile_m,), "float32")
            part = T.alloc_tile((tile_m,), "float32")
            norm = T.alloc_tile((tile_m,), "float32")
            T.copy(Q[bz, bx * tile_m : (bx + 1) * tile_m, by, 0:dim], q)
            T.clear(total)
            T.clear(norm)
            T.fill(top, -1e30)
            seen = T.min(keys, (bx + 1) * tile_m + keys - queries) if causal else keys
            for k in T.serial(T.ceildiv(seen, tile_n)):
                T.copy(K[bz, k * tile_n : (k + 1) * tile_n, by, 0:dim], kt)
                T.gemm(q, kt, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(tile_m, tile_n):
                    last = T.min(keys - 1, bx * tile_m + i + keys - queries) if causal else keys - 1
                    S[i, j] = T.if_then_else(k * tile_n + j <= last, S[i, j] * scale, -T.infinity("float32"))
                T.copy(top, before)
                T.reduce_max(S, top, dim=1, clear=False)
                for i in T.Parallel(tile_m):
                    shrink[i] = T.exp2(before[i] - top[i])
                for i, j in T.Parallel(tile_m, tile_n):
                    S[i, j] = T.exp2(S[i, j] - top[i])
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(tile_m):
                    norm[i] = norm[i] * shrink[i] + part[i]
                T.copy(S, P)
                for i, j in T.Parallel(tile_m, dim):
                    total[i, j] = total[i, j] * shrink[i]
                T.copy(V[bz, k * tile_n : (k + 1) * tile_n, by, 0:dim], vt)
                T.gemm(P, vt, total)
            for i, j in T.Parallel(tile_m, dim):
                total[i, j] = total[i, j] / norm[i]
            T.copy(total, O[bz, bx * tile_m : (bx + 1) * tile_m, by, 0:dim])

    return attention


def tensors(program, seed=0):
    """Random Q, K, V of a program's shapes, and an output of NaN."""
    made = torch.Generator().manual_seed(seed)
    shapes = [param.shape for param in program.params]
    return [
        *(torch.randn(shape, generator=made).to(torch.float16) for shape in shapes[:3]),
        torch.full(shapes[3], float("nan"), dtype=torch.float16),
    ]


def reference(q, k, v, causal):
    """Attention in float64; query i sees keys up to i + keys - queries when causal."""
    q, k, v = (tensor.double().transpose(1, 2) for tensor in (q, k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        rows, columns = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows), -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2)
