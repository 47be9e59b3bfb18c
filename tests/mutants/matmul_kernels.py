"""Matmuls whose synchronisation the mutants break: ring of stages, staged store, split K, persistent, grouped."""

from __future__ import annotations

import tilewright as tw
from tilewright import language as T


@tw.kernel
def gemm(m=128, n=64, k=256, block_k=32, stages=3, dtype="float16"):
    """C = A @ B, fragments stored straight to global memory."""

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(n // 64, m // 64, threads=128) as (bx, by):
            a = T.alloc_shared((64, block_k), dtype)
            b = T.alloc_shared((block_k, 64), dtype)
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for i in T.Pipelined(k // block_k, num_stages=stages):
                T.copy(A[by * 64, i * block_k], a)
                T.copy(B[i * block_k, bx * 64], b)
                T.gemm(a, b, total)
            T.copy(total, C[by * 64, bx * 64])

    return main


@tw.kernel
def gemm_store(m=128, n=64, k=256, block_k=32, stages=3, dtype="float16"):
    """C = A @ B through a tile in shared memory, which TMA stores where there is TMA."""

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(n // 64, m // 64, threads=128) as (bx, by):
            a = T.alloc_shared((64, block_k), dtype)
            b = T.alloc_shared((block_k, 64), dtype)
            c = T.alloc_shared((64, 64), dtype)
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for i in T.Pipelined(k // block_k, num_stages=stages):
                T.copy(A[by * 64, i * block_k], a)
                T.copy(B[i * block_k, bx * 64], b)
                T.gemm(a, b, total)
            T.copy(total, c)
            T.copy(c, C[by * 64, bx * 64])

    return main


@tw.kernel
def split_k(m=64, n=64, k=384, splits=2, block_k=32, dtype="float16"):
    """C += A @ B, every share of K added by atomics."""

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")):
        with T.Kernel(n // 64, m // 64, splits, threads=128) as (bx, by, bz):
            a = T.alloc_shared((64, block_k), dtype)
            b = T.alloc_shared((block_k, 64), dtype)
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for i in T.Pipelined(k // splits // block_k, num_stages=2):
                T.copy(A[by * 64, bz * (k // splits) + i * block_k], a)
                T.copy(B[bz * (k // splits) + i * block_k, bx * 64], b)
                T.gemm(a, b, total)
            T.atomic_add(C[by * 64, bx * 64], total)

    return main


@tw.kernel
def persistent(m=192, n=128, k=192, blocks=2, block_k=32, stages=2, dtype="float16"):
    """C = A @ B; each of few blocks works through several tiles, which reuse its shared memory."""
    tiles = (m // 64) * (n // 64)

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(blocks, threads=128) as block:
            a = T.alloc_shared((64, block_k), dtype)
            b = T.alloc_shared((block_k, 64), dtype)
            c = T.alloc_shared((64, 64), dtype)
            total = T.alloc_fragment((64, 64), "float32")
            for wave in T.serial(tiles // blocks):
                tile = wave * blocks + block
                T.clear(total)
                for i in T.Pipelined(k // block_k, num_stages=stages):
                    T.copy(A[tile // (n // 64) * 64, i * block_k], a)
                    T.copy(B[i * block_k, tile % (n // 64) * 64], b)
                    T.gemm(a, b, total)
                T.copy(total, c)
                T.copy(c, C[tile // (n // 64) * 64, tile % (n // 64) * 64])

    return main


@tw.kernel
def grouped(groups=2, rows=192, n=64, k=192, block_k=32, stages=2, dtype="float16"):
    """C[rows of group g] = A[rows of group g] @ B[g]; groups of any size, cut off inside their last tile."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, k), dtype),
        B: T.Tensor((groups, k, n), dtype),
        sizes: T.Tensor((groups,), "int32"),
        offsets: T.Tensor((groups,), "int32"),
        C: T.Tensor((rows, n), dtype),
    ):
        with T.Kernel(n // 64, rows // 64, groups, threads=128) as (bx, by, g):
            a = T.alloc_shared((64, block_k), dtype)
            b = T.alloc_shared((block_k, 64), dtype)
            total = T.alloc_fragment((64, 64), "float32")
            start = offsets[g] + by * 64
            left = sizes[g] - by * 64
            if left > 0:
                T.clear(total)
                for i in T.Pipelined(k // block_k, num_stages=stages):
                    T.copy(A[start, i * block_k], a)
                    T.copy(B[g, i * block_k, bx * 64], b)
                    T.gemm(a, b, total)
                for i, j in T.Parallel(64, 64):
                    if i < left:
                        C[start + i, bx * 64 + j] = total[i, j]

    return main
