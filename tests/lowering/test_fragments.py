"""TileLang lays a fragment out by the first statement that touches it, even one that touches only a part."""

from __future__ import annotations

import pytest

from tilewright import language as T
from tilewright.dsl import Program, Target
from tilewright.lowering import lower
from tilewright.lowering.errors import LoweringError


def scaled(first, rows=32):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, c)
            for i, j in T.Parallel(rows, 64):
                c[first + i, j] = c[first + i, j] * 2.0
            T.copy(c, B)

    return Program.from_primfunc(main)


def test_a_fragment_laid_out_in_part_is_refused():
    with pytest.raises(LoweringError) as caught:
        lower(scaled(0), target=Target("sm_80"))
    text = str(caught.value)
    assert "only a part of fragment c" in text
    assert "c.shape = (64, 64), part = (32, 64)" in text
    assert caught.value.span.excerpt()[0].endswith('c = T.alloc_fragment((64, 64), "float32")')


@pytest.mark.parametrize(("first", "rows"), [(32, 32), (0, 64)])
def test_whole_fragments_pass(first, rows):
    assert "float c[32]" in lower(scaled(first, rows), target=Target("sm_80")).cuda
