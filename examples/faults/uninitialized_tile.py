"""An uninitialised tile: the copy fills fewer rows than the sum reads.

On hardware: what an earlier block left in shared memory, often zeros on the first launch and so right in a short test.
"""

import tilewright as tw
from tilewright import language as T


@tw.kernel
def uninitialized_tile(rows=56, n=128, fixed=False):
    @T.prim_func
    def main(x: T.Tensor((rows, n), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n):
            tile = T.alloc_shared((64, n), "float32")
            total = T.alloc_fragment((1,), "float32")
            t = T.get_thread_binding()
            for i in T.serial(64 if fixed else rows):
                tile[i, t] = T.if_then_else(i < rows, x[i, t], 0.0)
            total[0] = 0.0
            for i in T.serial(64):
                total[0] += tile[i, t]  # fault
            y[t] = total[0]

    return main
