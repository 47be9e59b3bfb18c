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
