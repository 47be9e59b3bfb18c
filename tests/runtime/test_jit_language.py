"""Unmodified TileLang kernels that go through the wider language, on CPU tensors against torch."""

import pytest
import tilelang.language as T
import torch

import tilewright as tw


def test_persistent_gemm_skips_absent_tiles():
    """Twelve tiles on five blocks: the accumulator of an absent tile is selected, never read."""

    @tw.jit(out_idx=[2], target="sm_80")
    def matmul(M, N, K, block=64, step=32):
        @T.prim_func
        def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
            with T.Kernel(5, threads=128) as start:
                a = T.alloc_shared((block, step), "float16")
                b = T.alloc_shared((step, block), "float16")
                c = T.alloc_fragment((block, block), "float32")
                for bx, by in T.Persistent([T.ceildiv(M, block), T.ceildiv(N, block)], 5, start):
                    T.clear(c)
                    for k in T.Pipelined(T.ceildiv(K, step), num_stages=2):
                        T.copy(A[bx * block, k * step], a)
                        T.copy(B[k * step, by * block], b)
                        T.gemm(a, b, c)
                    T.copy(c, C[bx * block, by * block])

        return main

    a, b = torch.randn(192, 96).half(), torch.randn(96, 256).half()
    torch.testing.assert_close(matmul(192, 256, 96)(a, b).double(), a.double() @ b.double(), rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_split_k_adds_atomically(target):
    @tw.jit(target=target)
    def matmul(A, B, C, block: int = 64, step: int = 32, parts: int = 4):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), "bfloat16")
        B: T.Tensor((N, K), "bfloat16")
        C: T.Tensor((M, N), "float32")
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), parts, threads=128) as (bx, by, bz):
            a = T.alloc_shared((block, step), "bfloat16")
            b = T.alloc_shared((block, step), "bfloat16")
            c = T.alloc_fragment((block, block), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K // parts, step), num_stages=2):
                T.copy(A[by * block, bz * (K // parts) + k * step], a)
                T.copy(B[bx * block, bz * (K // parts) + k * step], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(block, block):
                T.atomic_add(C[by * block + i, bx * block + j], c[i, j])

    a, b, c = torch.randn(64, 256).bfloat16(), torch.randn(128, 256).bfloat16(), torch.zeros(64, 128)
    matmul(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_scans_and_reductions(target):
    @tw.jit(out_idx=[1, 2, 3, 4], target=target)
    def kernel(M, N):
        @T.prim_func
        def main(
            A: T.Tensor((M, N), "float32"),
            rows: T.Tensor((M, N), "float32"),
            columns: T.Tensor((M, N), "float32"),
            largest: T.Tensor((M,), "float32"),
            total: T.Tensor((N,), "float32"),
        ):
            with T.Kernel(1, threads=128):
                s = T.alloc_shared((M, N), "float32")
                f = T.alloc_fragment((M, N), "float32")
                r = T.alloc_fragment((M,), "float32")
                c = T.alloc_fragment((N,), "float32")
                T.copy(A, s)
                T.cumsum(src=s, dim=1)
                T.copy(s, rows)
                T.copy(A, f)
                T.reduce_absmax(f, r, dim=1)
                T.copy(r, largest)
                T.reduce_sum(f, c, dim=0)
                T.copy(c, total)
                T.cumsum(src=f, dim=0, reverse=True)
                T.copy(f, columns)

        return main

    a = torch.randn(16, 64)
    rows, columns, largest, total = kernel(16, 64)(a)
    torch.testing.assert_close(rows.double(), a.double().cumsum(1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(columns.double(), a.double().flip(0).cumsum(0).flip(0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(largest, a.abs().amax(1))
    torch.testing.assert_close(total.double(), a.double().sum(0), rtol=1e-5, atol=1e-5)


def test_variables_and_loops():
    @tw.jit(out_idx=[1], target="sm_80")
    def kernel(N):
        @T.prim_func
        def main(A: T.Tensor((N,), "float32"), out: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                total = T.alloc_var("float32", init=0.0)
                weighted = T.alloc_var("float32")
                count = T.alloc_var("int32")
                local = T.alloc_local((8,), "float32")
                weighted = 0.0
                count = 0
                for i in T.serial(N):
                    total += A[i]
                for i in T.unroll(8):
                    weighted += A[i] * i
                for i in T.vectorized(4):
                    local[i] = A[i]
                for _ in T.serial(0, N, 2):
                    count += 1
                while count > 3:
                    count -= 2
                if T.get_thread_binding() == 0:
                    out[0] = total
                    out[1] = weighted
                    out[2] = local[3]
                    out[3] = T.cast(count, "float32")

        return main

    a = torch.randn(50, dtype=torch.float64).float()
    wanted = torch.stack([a.sum(), (a[:8] * torch.arange(8)).sum(), a[3], torch.tensor(3.0)])
    torch.testing.assert_close(kernel(50)(a), wanted, rtol=1e-5, atol=1e-5)


def test_two_kernels_of_one_function_and_a_macro_over_a_grid_of_three():
    @T.macro
    def scale(x, factor):
        for i in T.Parallel(32):
            x[i] = x[i] * factor

    @tw.jit(target="sm_80")
    def kernel(a, b, c):
        @T.prim_func
        def main(
            X: T.Tensor((a, b, c, 32), "bfloat16"), Y: T.Tensor((a, b, c, 32), "bfloat16"), S: T.Tensor((a,), "float32")
        ):
            with T.Kernel(c, b, a, threads=32) as (x, y, z):
                f = T.alloc_fragment((32,), "bfloat16")
                T.copy(X[z, y, x, :], f)
                scale(f, 2)
                T.copy(f, Y[z, y, x, :])
            with T.Kernel(a, threads=32) as z:
                for i in T.Parallel(32):
                    T.atomic_add(S[z], T.cast(Y[z, 0, 0, i], "float32"))

        return main

    x, s = torch.randn(2, 3, 4, 32).bfloat16(), torch.zeros(2)
    y = torch.empty_like(x)
    kernel(2, 3, 4)(x, y, s)
    torch.testing.assert_close(y, x * 2)
    torch.testing.assert_close(s.double(), y[:, 0, 0].double().sum(1), rtol=1e-5, atol=1e-5)


def test_bare_pointers_and_scalars():
    @tw.jit(target="sm_80")
    def kernel():
        @T.prim_func
        def main(source: T.ptr, target: T.ptr, factor: T.float32, n: T.int32):
            A = T.make_tensor(source, (n,), "float32")
            B = T.make_tensor(target, (n,), "float32")
            with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
                for i in T.Parallel(128):
                    if bx * 128 + i < n:
                        B[bx * 128 + i] = A[bx * 128 + i] * factor

        return main

    a, b = torch.randn(200), torch.zeros(200)
    kernel()(a[:177], b[:177], 2.5, 177)
    torch.testing.assert_close(b, torch.where(torch.arange(200) < 177, a * 2.5, 0))
