"""A slot overwritten before ``wgmma`` has read it: the next tile lands in the operand of a running matrix product.

On hardware: a few wrong sums that come and go with clock and occupancy. ``T.gemm`` waits for the tensor cores;
``T.wgmma_gemm`` only starts them, and the operands stay in use until ``T.wait_wgmma``.
"""

import tilewright as tw
from tilewright import language as T


@tw.kernel
def overwritten_slot(m=64, n=64, k=128, fixed=False):
    @T.prim_func
    def main(a: T.Tensor((m, k), "float16"), b: T.Tensor((k, n), "float16"), c: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=128):
            a_tile = T.alloc_shared((m, 64), "float16")
            b_tile = T.alloc_shared((64, n), "float16")
            total = T.alloc_fragment((m, n), "float32")
            T.clear(total)
            for i in T.serial(k // 64):
                T.copy(a[0, i * 64], a_tile)  # fault
                T.copy(b[i * 64, 0], b_tile)
                T.wgmma_gemm(a_tile, b_tile, total)  # other side
                if fixed:
                    T.wait_wgmma(0)
            T.wait_wgmma(0)
            T.copy(total, c)

    return main
