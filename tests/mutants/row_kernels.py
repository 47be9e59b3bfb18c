"""Reductions over rows that several warps share."""

from __future__ import annotations

import tilewright as tw
from tilewright import language as T


@tw.kernel
def rms_norm(m=8, n=512, rows=4, dtype="float16"):
    """Y = X / sqrt(mean(X^2)) * W through a tile in shared memory."""

    @T.prim_func
    def main(X: T.Tensor((m, n), dtype), W: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(m // rows, threads=128) as bx:
            x = T.alloc_shared((rows, n), dtype)
            f = T.alloc_fragment((rows, n), "float32")
            squares = T.alloc_fragment((rows, n), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.copy(x, f)
            for i, j in T.Parallel(rows, n):
                squares[i, j] = f[i, j] * f[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(rows):
                total[i] = T.rsqrt(total[i] / n + 1e-5)
            for i, j in T.Parallel(rows, n):
                f[i, j] = f[i, j] * total[i] * W[j]
            T.copy(f, Y[bx * rows, 0])

    return main


@tw.kernel
def softmax(m=2, n=640, rows=1, dtype="float32"):
    """Y = softmax of the rows of X; two reductions, each across the warps."""

    @T.prim_func
    def main(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(m // rows, threads=128) as bx:
            x = T.alloc_fragment((rows, n), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * rows, 0])

    return main
