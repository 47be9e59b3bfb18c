"""A divergent barrier: ``__syncthreads`` inside a branch that only some lanes of a warp take.

On hardware: undefined; a hang on some architectures, a barrier that pairs with a later one on others, and so a race.
The barrier of a tree reduction slipped into the ``if``.
"""

import tilewright as tw
from tilewright import language as T


@tw.kernel
def divergent_barrier(n=256, fixed=False):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=n):
            tile = T.alloc_shared((n,), "float32")
            t = T.get_thread_binding()
            tile[t] = x[t]
            T.sync_threads()
            for k in T.unroll(8):
                if t < (n // 2 >> k):
                    tile[t] += tile[t + (n // 2 >> k)]
                    if not fixed:
                        T.sync_threads()  # fault
                if fixed:
                    T.sync_threads()
            if t == 0:
                y[0] = tile[0]

    return main
