"""A wrong number of expected bytes: the copy brings more than was announced, so the phase never completes.

On hardware: a hang, or, when other copies make up for the difference, a tile that is read too early. The number of
elements was announced where the number of bytes belongs.
"""

import tilewright as tw
from tilewright import language as T

FETCH = """
__device__ __forceinline__ void fetch(float* tile, const float* from, Barrier* filled, unsigned bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
               "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(from), "r"(bytes),
               "r"((unsigned)__cvta_generic_to_shared(filled)) : "memory");
}
"""


@tw.kernel
def wrong_bytes(n=1024, fixed=False):
    announced = 4 * n if fixed else n

    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128, prelude=FETCH):
            tile = T.alloc_shared((n,), "float32")
            filled = T.alloc_barrier(1)
            if T.get_thread_binding() == 0:
                T.mbarrier_expect_tx(filled[0], announced)  # other side
                T.call_extern(
                    "void", "fetch", T.address_of(tile[0]), T.address_of(x[0]), T.address_of(filled[0]), 4 * n
                )
                T.barrier_arrive(filled[0])
            T.mbarrier_wait_parity(filled[0], 0)  # fault
            for i in T.Parallel(n):
                y[i] = tile[i] * 2

    return main
