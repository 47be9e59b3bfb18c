"""Kernels in files with ``from __future__ import annotations``, whose annotations are texts."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright import language as T
from tilewright.dsl.errors import UndefinedName
from tilewright.dsl.hints import resolve_annotations


@tw.kernel
def scale(n=64, dtype="float16", threads=64):
    wide = n * 2

    @T.macro
    def twice(x: T.Tensor((wide,), dtype), i: T.int32):
        x[i] = x[i] * 2.0

    @T.prim_func
    def main(A: T.Tensor((wide,), dtype), alpha: T.float32):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(64):
                twice(A, i)

    return main


def test_annotations_read_names_that_only_they_use():
    program = scale.bind(n=32, dtype="bfloat16")
    tensor, scalar = program.params
    assert (tensor.name, tensor.dtype, tensor.shape) == ("A", "bfloat16", (64,))
    assert scalar.dtype == "float32"


def test_a_name_known_nowhere():
    @tw.kernel
    def wrong():
        @T.prim_func
        def main(A: T.Tensor((length,), "float32")):  # noqa: F821
            with T.Kernel(1, threads=32):
                A[0] = 1.0

        return main

    with pytest.raises(UndefinedName, match="name 'length' is not defined"):
        wrong.bind()


def test_only_the_frame_that_defines_the_function_is_read():
    def define():
        size = 3

        def inner(a: size):
            return a

        return inner, size

    inner, _ = define()
    size = 4
    resolve_annotations(inner)
    assert inner.__annotations__ == {"a": "size"}
    assert size == 4


def test_eager_functions_are_resolved_where_they_are_decorated():
    def make(extent):
        @tw.jit(target="sm_80")
        def fill(A: T.Tensor((extent,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    A[i] = 1.0

        return fill

    kernel = make(32).compile()
    assert [e.text for e in kernel.plan.arguments[0].shape] == ["32"]
