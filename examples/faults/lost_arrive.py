"""A lost arrival: everyone waits on an mbarrier whose phase nobody completes.

On hardware: the kernel hangs, ``cudaStreamSynchronize`` never returns, and nothing says where. Here an ``if`` meant for
one warp keeps the arrival from happening.
"""

import tilewright as tw
from tilewright import language as T


@tw.kernel
def lost_arrive(n=1024, fixed=False):
    arriving = 0 if fixed else 128  # the block has threads 0 to 127

    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((n,), "float32")
            filled = T.alloc_barrier(1)
            T.tma_copy(x, tile, barrier=filled[0])
            if T.get_thread_binding() == arriving:
                T.barrier_arrive(filled[0])
            T.mbarrier_wait_parity(filled[0], 0)  # fault
            for i in T.Parallel(n):
                y[i] = tile[i] * 2

    return main
