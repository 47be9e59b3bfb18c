"""Kernels and an own cache folder for the tests of lowering."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.dsl import Program
from tilewright.dsl import language as T
from tilewright.lowering import cache


def make_gemm(m, n, k, tile=(64, 64, 32), stages=2, threads=128, dtype="float16", acc="float32", store=False):
    tm, tn, tk = tile

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, tn), T.ceildiv(m, tm), threads=threads) as (bx, by):
            As = T.alloc_shared((tm, tk), dtype)
            Bs = T.alloc_shared((tk, tn), dtype)
            Cs = T.alloc_shared((tm, tn), dtype)
            Cl = T.alloc_fragment((tm, tn), acc)
            T.clear(Cl)
            for ko in T.Pipelined(T.ceildiv(k, tk), num_stages=stages):
                T.copy(A[by * tm, ko * tk], As)
                T.copy(B[ko * tk, bx * tn], Bs)
                T.gemm(As, Bs, Cl)
            if store:
                T.copy(Cl, Cs)
                T.copy(Cs, C[by * tm, bx * tn])
            else:
                T.copy(Cl, C[by * tm, bx * tn])

    return Program.from_primfunc(main)


def make_scale(n, factor=2.0):
    @T.prim_func
    def scale(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * factor

    return Program.from_primfunc(scale)


@pytest.fixture(scope="session")
def gemm() -> Callable[..., Any]:
    return make_gemm


@pytest.fixture(scope="session")
def scale() -> Callable[..., Any]:
    return make_scale


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tilewright cache")


@pytest.fixture(autouse=True)
def _own_cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(session_cache))
    monkeypatch.delenv("TILEWRIGHT_CUDA_HOME", raising=False)
    cache.forget()
    yield
    cache.forget()
