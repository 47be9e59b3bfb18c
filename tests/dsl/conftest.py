import textwrap

import pytest

from tilewright.dsl import check_program, kernel, load_source
from tilewright.errors import TilewrightError

VECTORS = 'A: T.Tensor((256,), "float32"), O: T.Tensor((256,), "float32")'


def source_of(body, params=VECTORS, before="", threads=128, grid="1"):
    return (
        "from tilewright import language as T\n\n\ndef factory():\n"
        + textwrap.indent(before + "\n" * bool(before), "    ")
        + f"    @T.prim_func\n    def main({params}):\n        with T.Kernel({grid}, threads={threads}) as bx:\n"
        + textwrap.indent(textwrap.dedent(body).strip(), " " * 12)
        + "\n    return main\n"
    )


@pytest.fixture
def make():
    """Kernel body -> factory; the text of the body is what messages show."""

    def build(body, params=VECTORS, before="", threads=128, grid="1"):
        return kernel(load_source(source_of(body, params, before, threads, grid))["factory"])

    return build


def assert_readable(error):
    text = str(error)
    assert len(text.splitlines()) <= 12, text
    for backend in ("tvm::", ".cc:", "Traceback", "__tb", "/src/"):
        assert backend not in text
    return text


@pytest.fixture
def refusal(make):
    """The error that binding a kernel and checking it for a target raises."""

    def run(body, target=None, **how):
        def bind_and_check():
            program = make(body, **how).bind()
            if target is not None:
                check_program(program, target)

        with pytest.raises(TilewrightError) as caught:
            bind_and_check()
        assert_readable(caught.value)
        return caught.value

    return run


GEMM = """\
from tilewright import language as T


def gemm(m, n, k, *, bm=128, bn=128, bk=32, stages=3, threads=128, dtype="float16", acc="float32", tb=False):
    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((n, k) if tb else (k, n), dtype), C: T.Tensor((m, n), acc)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            A_s = T.alloc_shared((bm, bk), dtype)
            B_s = T.alloc_shared((bn, bk) if tb else (bk, bn), dtype)
            S = T.alloc_fragment((bm, bn), acc)
            T.clear(S)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, ko * bk], A_s)
                if tb:
                    T.copy(B[bx * bn, ko * bk], B_s)
                else:
                    T.copy(B[ko * bk, bx * bn], B_s)
                T.gemm(A_s, B_s, S, transpose_B=tb)
            for i, j in T.Parallel(bm, bn):
                S[i, j] = T.max(S[i, j], 0)
            T.copy(S, C[by * bm, bx * bn])

    return main
"""


@pytest.fixture(scope="session")
def gemm():
    """A matrix product with tiles, stages, threads, dtypes and the orientation of B as parameters."""
    return kernel(load_source(GEMM, "<gemm>")["gemm"])
