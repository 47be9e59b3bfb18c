"""Tile programs without a word on memory, threads or order, and what they compute in float64."""

import attention_program
import torch

from tilewright.dsl import kernel
from tilewright.dsl import language as T


@kernel
def gemm(m=256, n=192, k=128, tm=64, tn=64, tk=32, dtype="float16", out="float16"):
    @T.prim_func
    def gemm(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, tn), T.ceildiv(m, tm)) as (bx, by):
            a = T.alloc_tile((tm, tk), dtype)
            b = T.alloc_tile((tk, tn), dtype)
            c = T.alloc_tile((tm, tn), "float32")
            T.clear(c)
            for ko in T.serial(T.ceildiv(k, tk)):
                T.copy(A[by * tm, ko * tk], a)
                T.copy(B[ko * tk, bx * tn], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * tm, bx * tn])

    return gemm


@kernel
def softmax(m=64, n=256, tm=16, dtype="float32"):
    @T.prim_func
    def softmax(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, tm)) as bx:
            x = T.alloc_tile((tm, n), "float32")
            top = T.alloc_tile((tm,), "float32")
            total = T.alloc_tile((tm,), "float32")
            T.copy(X[bx * tm, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(tm, n):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(tm, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * tm, 0])

    return softmax


@kernel
def layer_norm(m=64, n=256, tm=16, dtype="float16"):
    @T.prim_func
    def layer_norm(X: T.Tensor((m, n), dtype), W: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, tm)) as bx:
            x = T.alloc_tile((tm, n), "float32")
            square = T.alloc_tile((tm, n), "float32")
            mean = T.alloc_tile((tm,), "float32")
            var = T.alloc_tile((tm,), "float32")
            T.copy(X[bx * tm, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(tm, n):
                x[i, j] = x[i, j] - mean[i] / n
            for i, j in T.Parallel(tm, n):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, var, dim=1)
            for i, j in T.Parallel(tm, n):
                x[i, j] = x[i, j] * T.rsqrt(var[i] / n + 1e-5) * W[j]
            T.copy(x, Y[bx * tm, 0])

    return layer_norm


@kernel
def scale(m=16, n=128, dtype="float16"):
    @T.prim_func
    def scale(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(1) as _:
            for i, j in T.Parallel(m, n):
                Y[i, j] = X[i, j] * 2

    return scale


TORCH = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def operands(program, seed=0):
    """Inputs and a NaN-filled output for a program, the last parameter being the output."""
    generator = torch.Generator().manual_seed(seed)
    *inputs, result = program.params
    tensors = [torch.randn(p.shape, generator=generator, dtype=torch.float64).to(TORCH[p.dtype]) for p in inputs]
    return *tensors, torch.full(result.shape, float("nan"), dtype=TORCH[result.dtype])


def reference(program, *inputs):
    """What a program computes, in float64."""
    wide = [tensor.double() for tensor in inputs]
    if program.name == "gemm":
        return wide[0] @ wide[1]
    if program.name == "attention":
        return attention_program.reference(*wide, causal=False)
    if program.name == "softmax":
        return torch.softmax(wide[0], 1)
    return torch.nn.functional.layer_norm(wide[0], wide[0].shape[1:], wide[1], None, 1e-5)


def wrong(program, *tensors):
    """Complaints about the output, the last tensor, for ``verify=`` of ``tw.check``."""
    *inputs, result = tensors
    want = reference(program, *inputs)
    step = torch.finfo(result.dtype).eps
    bound = 2 * step * want.abs() + 4 * step * want.abs().max() + 1e-5
    bad = ~((result.double() - want).abs() <= bound)
    return [f"{int(bad.sum())} elements wrong"] if bad.any() else []
