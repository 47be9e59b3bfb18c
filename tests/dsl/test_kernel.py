import pytest

from tilewright import language as T
from tilewright.dsl import KernelFactory, kernel
from tilewright.dsl.errors import NotAPrimFunc, ParameterError

FACTOR = 2.0


@kernel
def scaled(m, n=64, *, dtype="float32"):
    """Scales by FACTOR."""

    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, 16), threads=64) as bx:
            for i, j in T.Parallel(16, n):
                B[bx * 16 + i, j] = A[bx * 16 + i, j] * FACTOR

    return main


def test_identity():
    assert isinstance(scaled, KernelFactory)
    assert scaled.__name__ == "scaled"
    assert scaled.__doc__ == "Scales by FACTOR."
    assert dict(scaled.parameters) == {"m": KernelFactory.required, "n": 64, "dtype": "float32"}
    assert repr(scaled) == "<kernel scaled(m, n=64, *, dtype='float32')>"


def test_bind_fills_defaults():
    assert scaled.bind(m=32).bindings == {"m": 32, "n": 64, "dtype": "float32"}


def test_unknown_parameter():
    with pytest.raises(ParameterError, match="has no parameter 'dtyp'; did you mean 'dtype'") as caught:
        scaled.bind(m=32, dtyp="float16")
    assert "its parameters are m, n, dtype" in str(caught.value)


def test_missing_parameter():
    with pytest.raises(ParameterError, match="kernel 'scaled' needs a value for m") as caught:
        scaled.bind(n=32)
    assert "call bind(m=...)" in str(caught.value)


def test_a_factory_returns_a_prim_func():
    @kernel
    def nothing(m):
        pass

    with pytest.raises(NotAPrimFunc, match="kernel 'nothing' returned NoneType, not a") as caught:
        nothing.bind(m=1)
    assert "end the factory with: return main" in str(caught.value)


def test_only_functions_become_kernels():
    with pytest.raises(ParameterError, match="decorates a function, got int"):
        kernel(3)


def test_globals_are_never_stale(monkeypatch):
    first = scaled.bind(m=32)
    monkeypatch.setitem(globals(), "FACTOR", 7.0)
    second = scaled.bind(m=32)
    assert "T.float32(2.0)" in first.func.script()
    assert "T.float32(7.0)" in second.func.script()
    assert first.fingerprint != second.fingerprint


def test_fingerprint_follows_globals(monkeypatch):
    before = scaled.fingerprint()
    assert scaled.fingerprint() == before
    monkeypatch.setitem(globals(), "FACTOR", 7.0)
    assert scaled.fingerprint() != before
