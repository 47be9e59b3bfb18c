"""A function for ``jit`` in its eager style. TileLang reads its annotations, so they must not be postponed."""

import tilelang.language as T


def eager_add(a, b, c):
    """c = a + b over n float32 values, in one block."""
    n = T.const("n")
    a: T.Tensor[[n], T.float32]
    b: T.Tensor[[n], T.float32]
    c: T.Tensor[[n], T.float32]
    with T.Kernel(1, threads=128):
        for i in T.Parallel(n):
            c[i] = a[i] + b[i]
