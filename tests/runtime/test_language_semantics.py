"""What Python-looking code of a kernel means: variables, division of negative numbers, a loop left early."""

import torch

import tilewright as tw
from tilewright import language as T


def test_a_variable_assigned_under_a_condition_is_a_clamp_of_each_thread():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            x = T.alloc_var("float32")
            x = A[t]
            if x > 1.0:
                x = 1.0
            B[t] = x

    a, b = torch.linspace(-3, 3, 64), torch.zeros(64)
    tw.compile(main, target="sm_80")(a, b)
    assert torch.equal(b, a.clamp(max=1))


def test_integer_division_floors_as_in_python():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), quotient: T.Tensor((64,), "int32"), rest: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            quotient[t] = A[t] // 512
            rest[t] = A[t] % 3

    a = torch.arange(-40, 24, dtype=torch.int32)
    quotient, rest = torch.zeros_like(a), torch.zeros_like(a)
    tw.compile(main, target="sm_80")(a, quotient, rest)
    assert quotient.tolist() == [x // 512 for x in range(-40, 24)]
    assert rest.tolist() == [x % 3 for x in range(-40, 24)]


def test_names_of_ended_loops_are_free_and_breaks_are_kept():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            d = T.alloc_var("float32")
            for i in T.serial(2):
                d = A[i]
                B[i] = d
            for d in T.Parallel(2):
                B[2 + d] = A[d] * 2
            for i in T.vectorized(4):
                if i == 2:
                    T.loop_break()
                B[4 + i] = 1.0

    a, b = torch.arange(1.0, 9.0), torch.zeros(8)
    tw.compile(main, target="sm_80")(a, b)
    assert b.tolist() == [1, 2, 2, 4, 1, 1, 0, 0]
