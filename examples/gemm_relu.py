"""relu(a @ b) with ``tw.jit``: a TileLang kernel as it stands, called with torch tensors, on a GPU or without one."""

import torch

import tilewright as tw
from tilewright import language as T


@tw.jit(out_idx=[-1])
def gemm_relu(m=256, n=256, k=256, dtype="float16", block_m=64, block_n=64, block_k=32, stages=3):
    @T.prim_func
    def main(a: T.Tensor((m, k), dtype), b: T.Tensor((k, n), dtype), c: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=128) as (bx, by):
            a_tile = T.alloc_shared((block_m, block_k), dtype)
            b_tile = T.alloc_shared((block_k, block_n), dtype)
            total = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(total)
            for i in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                T.copy(a[by * block_m, i * block_k], a_tile)
                T.copy(b[i * block_k, bx * block_n], b_tile)
                T.gemm(a_tile, b_tile, total)
            for i, j in T.Parallel(block_m, block_n):
                total[i, j] = T.max(total[i, j], 0)
            T.copy(total, c[by * block_m, bx * block_n])

    return main


def reference(a, b):
    return torch.relu(a @ b)


if __name__ == "__main__":
    kernel = gemm_relu(m=200, n=136, k=96)
    a, b = torch.randn(200, 96, dtype=torch.float16), torch.randn(96, 136, dtype=torch.float16)
    error = (kernel(a, b).double() - reference(a.double(), b.double())).abs().max().item()
    print(f"gemm_relu 200x136x96 on {kernel.target.name}: largest error {error:.1e}")
