"""A missing ``__syncthreads``: threads read what other warps have not written yet.

On hardware: some elements are those of an earlier block or stale, differently on each run and each GPU; often right in
a debugger. TileLang puts barriers between the accesses that it sees. It does not see into a device function, and an
address taken with ``T.address_of`` counts as a read: two calls get no barrier between them.
"""

import tilewright as tw
from tilewright import language as T

HELPERS = """
__device__ __forceinline__ void put(float* tile, float value) { tile[threadIdx.x] = value; }
__device__ __forceinline__ float mirrored(const float* tile, int last) { return tile[last - threadIdx.x]; }
"""


@tw.kernel
def missing_sync(n=256, fixed=False):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n, prelude=HELPERS):
            tile = T.alloc_shared((n,), "float32")
            t = T.get_thread_binding()
            T.call_extern("void", "put", T.address_of(tile[0]), x[t])  # other side
            if fixed:
                T.sync_threads()
            y[t] = T.call_extern("float32", "mirrored", T.address_of(tile[0]), n - 1)  # fault

    return main
