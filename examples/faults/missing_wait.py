"""A consumer that does not wait: the tile is read before the copy engine has filled it.

On hardware: right when the copy happens to be fast, garbage of the previous tile otherwise; more often wrong on larger
tensors, when L2 misses. ``T.copy`` waits by itself; ``T.tma_copy`` leaves arrival and wait to the kernel.
"""

import tilewright as tw
from tilewright import language as T


@tw.kernel
def missing_wait(n=1024, fixed=False):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((n,), "float32")
            filled = T.alloc_barrier(1)
            T.tma_copy(x, tile, barrier=filled[0])  # other side
            if T.get_thread_binding() == 0:
                T.barrier_arrive(filled[0])
            if fixed:
                T.mbarrier_wait_parity(filled[0], 0)
            for i in T.Parallel(n):
                y[i] = tile[i] * 2  # fault

    return main
