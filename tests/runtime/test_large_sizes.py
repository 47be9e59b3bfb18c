"""Sizes of 2**31 and more: refused where a variable has 32 bits, right where it has 64; little memory is touched."""

from __future__ import annotations

import pytest
import torch

import tilewright as tw
from tilewright import language as T
from tilewright.runtime import ArgumentError

BIG = 2**31 + 64


def last_element(dtype):
    n = T.dynamic("n", dtype)

    @T.prim_func
    def main(out: T.Tensor((n,), "int8")):
        with T.Kernel(1, threads=32):
            if T.get_thread_binding() == 0:
                out[n - 1] = T.int8(7)

    return main


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_32_bit_variable_refuses_what_it_cannot_hold(target):
    kernel = tw.compile(last_element("int32"), target=target)
    with pytest.raises(ArgumentError) as caught:
        kernel(torch.empty(BIG, dtype=torch.int8))
    assert "out: shape[0] makes n more than int32 holds" in str(caught.value)
    assert 'T.dynamic("n", "int64")' in str(caught.value)


def test_a_64_bit_variable_reaches_every_element():
    out = torch.empty(BIG, dtype=torch.int8)
    out[-66:] = 0
    tw.compile(last_element("int64"), target="sm_80")(out)
    assert out[-66:].tolist() == [0] * 65 + [7]


def test_offsets_beyond_32_bits_are_widened():
    """A gather at row 20000 of rows of 131072: the extents are int32, the offset is not."""
    rows = T.dynamic("rows")

    @T.prim_func
    def main(A: T.Tensor((rows, 131072), "int8"), index: T.Tensor((32,), "int32"), out: T.Tensor((32,), "int8")):
        with T.Kernel(1, threads=32):
            for t in T.Parallel(32):
                out[t] = A[index[t], t]

    table = torch.empty(20001, 131072, dtype=torch.int8)
    table[20000, :32] = torch.arange(32, dtype=torch.int8)
    out = torch.zeros(32, dtype=torch.int8)
    tw.compile(main, target="sm_80")(table, torch.full((32,), 20000, dtype=torch.int32), out)
    assert out.tolist() == list(range(32))
