"""Row softmax, fused: each block keeps its rows in registers and reads and writes global memory once."""

import torch

import tilewright as tw
from tilewright import language as T


@tw.kernel
def softmax(m=256, n=1000, dtype="float16", rows=4, threads=128):
    width = -(-n // threads) * threads  # whole columns for every thread; those beyond n count as minus infinity

    @T.prim_func
    def main(x: T.Tensor((m, n), dtype), y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            values = T.alloc_fragment((rows, width), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            for i, j in T.Parallel(rows, width):
                inside = block * rows + i < m and j < n
                values[i, j] = T.if_then_else(inside, x[block * rows + i, j], -T.infinity("float32"))
            T.reduce_max(values, largest, dim=1)
            for i, j in T.Parallel(rows, width):
                values[i, j] = T.exp(values[i, j] - largest[i])
            T.reduce_sum(values, total, dim=1)
            for i, j in T.Parallel(rows, width):
                values[i, j] = values[i, j] / total[i]
            T.copy(values, y[block * rows, 0])

    return main


def reference(x):
    return torch.softmax(x, dim=-1)


if __name__ == "__main__":
    kernel = tw.compile(softmax.bind(m=64, n=1000), out_idx=-1)
    x = torch.randn(64, 1000, dtype=torch.float16)
    error = (kernel(x).double() - reference(x.double())).abs().max().item()
    print(f"softmax 64x1000 on {kernel.target.name}: largest error {error:.1e}")
