"""TileLang's rewriting of its own functions is remembered, with closures kept apart and the same code coming out."""

from dataclasses import dataclass
from types import FunctionType

from tilelang.language.eager import ast as rewriting
from tilelang.language.eager import builder, utils

from tilewright.dsl import language as T
from tilewright.dsl.macros import remembering


@dataclass
class Rewritten:
    gen: FunctionType


def counting():
    calls = []

    def mutate(function):
        calls.append(function)
        return Rewritten(function)

    return mutate, calls


def adder(number):
    def add(x, *, more=1):
        return x + number + more

    return add


def test_a_function_of_the_library_is_rewritten_once_and_keeps_its_own_numbers():
    mutate, calls = counting()
    remembered = remembering(mutate, utils.get_func_nonlocals, __file__.rpartition("/")[0])
    results = [remembered(adder(number)).gen(10) for number in (1, 2, 3)]
    assert results == [12, 13, 14]
    assert len(calls) == 1


def test_a_users_function_is_rewritten_every_time():
    mutate, calls = counting()
    remembered = remembering(mutate, utils.get_func_nonlocals, "/nowhere")
    assert [remembered(adder(number)).gen(10) for number in (1, 2)] == [12, 13]
    assert len(calls) == 2


def test_an_unbound_variable_is_left_to_the_rewriting():
    mutate, calls = counting()

    def late():
        def inner():
            return value

        found = remembered(inner)
        value = 7
        return found.gen()

    remembered = remembering(mutate, utils.get_func_nonlocals, __file__.rpartition("/")[0])
    assert [late(), late()] == [7, 7]
    assert len(calls) == 2


def test_the_generated_code_is_the_same(monkeypatch):
    from tilelang import lower
    from tvm.target import Target

    @T.prim_func
    def product(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    def texts():
        machines = [Target({"kind": "cuda", "arch": arch}) for arch in ("sm_80", "sm_90a")]
        found = []
        for machine in machines:
            with machine:
                found.append(str(lower(product, target=machine).kernel_source))
        return found

    remembered = [texts(), texts()]
    assert builder.mutate is not rewriting.mutate
    monkeypatch.setattr(builder, "mutate", rewriting.mutate)
    assert [texts()] * 2 == remembered
