"""Out of bounds by one: the last thread of the last block reads the element behind the tensor.

On hardware: nothing, until the tensor ends at a page: then an illegal address, reported at some later call. TileLang
guards the accesses that it sees; the device function looks at a neighbour that nobody guards.
"""

import tilewright as tw
from tilewright import language as T

SLOPE = """
__device__ __forceinline__ float slope(const float* at) { return at[1] - at[0]; }
"""


@tw.kernel
def out_of_bounds(n=1000, block=128, fixed=False):
    last = n - 1 if fixed else n

    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=block, prelude=SLOPE) as b:
            i = b * block + T.get_thread_binding()
            if i < last:
                y[i] = T.call_extern("float32", "slope", T.address_of(x[i]))  # fault

    return main
