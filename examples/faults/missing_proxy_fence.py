"""A missing proxy fence: the copy engine reads shared memory past the stores that the threads have just made.

On hardware: old values in the result, rarely, and never under a debugger. Ordinary stores and the copy engine see
shared memory through different proxies, and a barrier alone does not join them. TileLang fences before the copies that
it makes; here the store to global memory is our own.
"""

import tilewright as tw
from tilewright import language as T

SEND = """
__device__ __forceinline__ void send(float* to, const float* tile, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::
               "l"(to), "r"((unsigned)__cvta_generic_to_shared(tile)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
"""


@tw.kernel
def missing_proxy_fence(n=256, fixed=False):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n, prelude=SEND):
            tile = T.alloc_shared((n,), "float32")
            t = T.get_thread_binding()
            tile[t] = x[t] * 2  # other side
            if fixed:
                T.fence_proxy_async()
            T.sync_threads()
            if t == 0:
                T.call_extern("void", "send", T.address_of(y[0]), T.address_of(tile[0]), 4 * n)  # fault

    return main
