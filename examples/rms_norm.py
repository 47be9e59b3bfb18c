"""RMSNorm, fused: y = x / sqrt(mean(x^2) + eps) * weight, one read and one write of x."""

import torch

import tilewright as tw
from tilewright import language as T

EPS = 1e-5


@tw.kernel
def rms_norm(m=256, n=1024, dtype="float16", rows=4, threads=128):
    @T.prim_func
    def main(x: T.Tensor((m, n), dtype), weight: T.Tensor((n,), dtype), y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            staged = T.alloc_shared((rows, n), dtype)
            values = T.alloc_fragment((rows, n), "float32")
            squares = T.alloc_fragment((rows, n), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            T.copy(x[block * rows, 0], staged)
            T.copy(staged, values)
            for i, j in T.Parallel(rows, n):
                squares[i, j] = values[i, j] * values[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.rsqrt(scale[i] / n + EPS)
            for i, j in T.Parallel(rows, n):
                values[i, j] = values[i, j] * scale[i] * weight[j]
            T.copy(values, y[block * rows, 0])

    return main


def reference(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, EPS)


if __name__ == "__main__":
    kernel = tw.compile(rms_norm.bind(m=64, n=1024), out_idx=-1)
    x, weight = torch.randn(64, 1024, dtype=torch.float16), torch.randn(1024, dtype=torch.float16)
    error = (kernel(x, weight).double() - reference(x.double(), weight.double())).abs().max().item()
    print(f"rms_norm 64x1024 on {kernel.target.name}: largest error {error:.1e}")
