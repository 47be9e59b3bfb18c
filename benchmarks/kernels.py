"""The kernels that both sides of a comparison compile: TileLang functions, the same object for each."""

from __future__ import annotations

from typing import Any


def gemm(m: int, n: int, k: int, tile: tuple[int, int, int], stages: int = 3, dtype: str = "float16") -> Any:
    """The PrimFunc of c (m, n) = a (m, k) @ b (k, n) with f32 accumulation, one block a ``tile`` (m, n, k)."""
    import tilelang.language as T

    block_m, block_n, block_k = tile

    @T.prim_func
    def main(a: T.Tensor((m, k), dtype), b: T.Tensor((k, n), dtype), c: T.Tensor((m, n), dtype)) -> None:  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=128) as (bx, by):
            a_tile = T.alloc_shared((block_m, block_k), dtype)
            b_tile = T.alloc_shared((block_k, block_n), dtype)
            total = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(total)
            for i in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                T.copy(a[by * block_m, i * block_k], a_tile)
                T.copy(b[i * block_k, bx * block_n], b_tile)
                T.gemm(a_tile, b_tile, total)
            T.copy(total, c[by * block_m, bx * block_n])

    return main


def add(n: int) -> Any:
    """The PrimFunc of c = a + b over ``n`` float32 values, in one block; it also compiles for the host."""
    import tilelang.language as T

    @T.prim_func
    def main(a: T.Tensor((n,), "float32"), b: T.Tensor((n,), "float32"), c: T.Tensor((n,), "float32")) -> None:  # type: ignore[valid-type]
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                c[i] = a[i] + b[i]

    return main


def attention(
    batch: int, heads: int, length: int, dim: int, rows: int = 128, keys: int = 64, causal: bool = True
) -> Any:
    """The PrimFunc of o = softmax(q k^T / sqrt(dim)) v, causal or not, (batch, heads, length, dim) in f16, sums in f32.

    ``rows`` queries a block and ``keys`` keys a step; ``length`` must be a multiple of both.
    """
    import tilelang.language as T

    scale = dim**-0.5 * 1.4426950408889634  # log2(e): powers of 2 instead of e

    @T.prim_func
    def main(
        q: T.Tensor((batch, heads, length, dim), "float16"),  # type: ignore[valid-type]
        k: T.Tensor((batch, heads, length, dim), "float16"),  # type: ignore[valid-type]
        v: T.Tensor((batch, heads, length, dim), "float16"),  # type: ignore[valid-type]
        o: T.Tensor((batch, heads, length, dim), "float16"),  # type: ignore[valid-type]
    ) -> None:
        with T.Kernel(length // rows, heads, batch, threads=rows * 2) as (block, head, b):
            q_tile = T.alloc_shared((rows, dim), "float16")
            k_tile = T.alloc_shared((keys, dim), "float16")
            v_tile = T.alloc_shared((keys, dim), "float16")
            scores = T.alloc_fragment((rows, keys), "float32")
            weights = T.alloc_fragment((rows, keys), "float16")
            total = T.alloc_fragment((rows, dim), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            share = T.alloc_fragment((rows,), "float32")
            added = T.alloc_fragment((rows,), "float32")
            norm = T.alloc_fragment((rows,), "float32")
            T.copy(q[b, head, block * rows : (block + 1) * rows, :], q_tile)
            T.clear(total)
            T.clear(norm)
            T.fill(largest, -T.infinity("float32"))
            steps = T.ceildiv((block + 1) * rows, keys) if causal else length // keys
            for i in T.Pipelined(steps, num_stages=2):
                T.copy(k[b, head, i * keys : (i + 1) * keys, :], k_tile)
                if causal:
                    for x, y in T.Parallel(rows, keys):
                        scores[x, y] = T.if_then_else(block * rows + x >= i * keys + y, 0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(q_tile, k_tile, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(largest, before)
                T.reduce_max(scores, largest, dim=1, clear=False)
                for x in T.Parallel(rows):
                    share[x] = T.exp2((before[x] - largest[x]) * scale)
                for x, y in T.Parallel(rows, keys):
                    scores[x, y] = T.exp2((scores[x, y] - largest[x]) * scale)
                T.reduce_sum(scores, added, dim=1)
                for x in T.Parallel(rows):
                    norm[x] = norm[x] * share[x] + added[x]
                T.copy(scores, weights)
                for x, y in T.Parallel(rows, dim):
                    total[x, y] *= share[x]
                T.copy(v[b, head, i * keys : (i + 1) * keys, :], v_tile)
                T.gemm(weights, v_tile, total, policy=T.GemmWarpPolicy.FullRow)
            for x, y in T.Parallel(rows, dim):
                total[x, y] /= norm[x]
            T.copy(total, o[b, head, block * rows : (block + 1) * rows, :])

    return main


def softmax(m: int, n: int, rows: int = 4) -> Any:
    """The PrimFunc of y = softmax(x) along the rows of an (m, n) f16 tensor, ``rows`` a block; n a multiple of 128."""
    import tilelang.language as T

    @T.prim_func
    def main(x: T.Tensor((m, n), "float16"), y: T.Tensor((m, n), "float16")) -> None:  # type: ignore[valid-type]
        with T.Kernel(m // rows, threads=128) as block:
            values = T.alloc_fragment((rows, n), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(x[block * rows, 0], values)
            T.reduce_max(values, largest, dim=1)
            for i, j in T.Parallel(rows, n):
                values[i, j] = T.exp(values[i, j] - largest[i])
            T.reduce_sum(values, total, dim=1)
            for i, j in T.Parallel(rows, n):
                values[i, j] /= total[i]
            T.copy(values, y[block * rows, 0])

    return main
