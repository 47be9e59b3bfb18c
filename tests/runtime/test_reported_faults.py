"""Kernels that TileLang is known to get wrong: each runs right here, or is refused with what to do about it."""

import pytest
import torch

from tilewright.dsl import Program
from tilewright.dsl import language as T
from tilewright.dsl.errors import PipelineError, RaceError, ThreadError
from tilewright.lowering.errors import LoweringError
from tilewright.runtime import check, compile

MODES = ("eager", "lazy", "skew", "random")


def refused(func, target, error, message):
    with pytest.raises(error, match=message) as caught:
        compile(Program.from_primfunc(func), target=target)
    text = str(caught.value)
    assert len(text.splitlines()) <= 12
    assert "fix: " in text
    assert f"{__file__}:" in text


def right(func, target, tensors, want, **options):
    def verify(_, *found):
        difference = (found[-1].double() - want.double()).abs().max()
        return [] if difference <= 1e-2 * max(1.0, want.double().abs().max()) else [f"off by {difference}"]

    kernel = compile(Program.from_primfunc(func), target=target, **options)
    report = check(kernel, *tensors, modes=MODES, verify=verify)
    assert report.ok, str(report)
    return kernel


def test_a_tile_read_before_the_iteration_fills_it():
    @T.prim_func
    def f(A: T.Tensor((8, 32), "float32"), First: T.Tensor((32,), "float32"), O: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32) as _:
            s = T.alloc_shared((32,), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.clear(total)
            T.copy(First, s)
            for k in T.Pipelined(8, num_stages=2):
                for i in T.Parallel(32):
                    total[i] += s[i]
                T.copy(A[k, 0], s)
            T.copy(total, O)

    for target in ("sm_89", "sm_90a"):
        refused(f, target, PipelineError, "parallel total reads s before copy A->s fills it")


def product_loop(*, before=False, after=False, again=False, depth=3):
    @T.prim_func
    def f(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            if before:
                T.clear(a)
            for k in T.Pipelined(8, num_stages=depth):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            if again:
                for k in T.Pipelined(8, num_stages=depth):
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, 0], b)
                    T.gemm(a, b, c)
            T.copy(c, C)
            if after:
                for i, j in T.Parallel(64, 32):
                    C[i, j] += a[i, j]

    return f


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_pipelined_tile_used_outside_its_loop(target, where):
    refused(product_loop(**{where: True}), target, LoweringError, "also used outside that loop, where it has several")


def test_two_pipelines_of_one_tile():
    a, b = torch.randn(64, 256).half(), torch.randn(256, 64).half()
    twice = product_loop(again=True)
    right(twice, "sm_80", (a, b, torch.empty(64, 64)), 2 * (a.float() @ b.float()))
    refused(twice, "sm_90a", LoweringError, "also used outside that loop, where it has several")


def test_two_products_that_spread_a_fragment_differently():
    @T.prim_func
    def f(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256) as _:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            v = T.alloc_shared((128, 64), "float16")
            s = T.alloc_fragment((64, 128), "float32")
            p = T.alloc_fragment((64, 128), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(v)
            T.clear(s)
            T.clear(c)
            T.gemm(a, b, s, policy=T.GemmWarpPolicy.FullCol)
            T.copy(s, p)
            T.gemm(p, v, c, policy=T.GemmWarpPolicy.FullRow)
            T.copy(c, C)

    refused(f, "sm_80", LoweringError, "the fragments s and p meet in one statement")


def test_a_scan_with_a_number_of_threads_it_has_no_code_for():
    @T.prim_func
    def f(A: T.Tensor((128,), "float32"), C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=96) as _:
            s = T.alloc_shared((128,), "float32")
            T.copy(A, s)
            T.cumsum(s, dim=0)
            T.copy(s, C)

    refused(f, "sm_80", ThreadError, "cumsum s: a scan runs with 32, 64, 128")


def packed(threads):
    @T.prim_func
    def f(A: T.Tensor((128,), "int4"), B: T.Tensor((128,), "int4")):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared((128,), "int4")
            T.copy(A, s)
            T.copy(s, B)

    return f


def test_two_threads_of_one_byte():
    refused(packed(128), "sm_80", RaceError, "128 elements of int4 give 128 threads less than a byte each")
    a = torch.randint(-128, 128, (64,)).to(torch.int8)
    right(packed(64), "sm_80", (a, torch.zeros(64, dtype=torch.int8)), a)


def test_tiles_share_no_storage_where_barriers_are_the_users():
    @T.prim_func
    def f(A: T.Tensor((128,), "float32"), C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128) as _:
            s = T.alloc_shared((128,), "float32")
            u = T.alloc_shared((128,), "float32")
            r = T.alloc_fragment((128,), "float32")
            T.copy(A, s)
            T.sync_threads()
            for i in T.Parallel(128):
                r[i] = s[127 - i]
            for i in T.Parallel(128):
                u[i] = r[i] * 2
            T.sync_threads()
            for i in T.Parallel(128):
                C[i] = u[127 - i]

    a = torch.randn(128)
    options = {"pass_configs": {"tl.disable_thread_storage_sync": True}}
    kernel = right(f, "sm_80", (a, torch.empty(128)), a * 2, **options)
    assert any("repair kept_storage" in remark for remark in kernel.artifact.remarks)


def test_a_part_of_a_wider_tile_is_stored_row_by_row():
    @T.prim_func
    def f(A: T.Tensor((32, 72), "float16"), B: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=128) as _:
            s = T.alloc_shared((32, 72), "float16")
            T.copy(A, s)
            T.copy(s[:, 8:72], B)

    a = torch.randn(32, 72).half()
    kernel = right(f, "sm_90a", (a, torch.empty(32, 64).half()), a[:, 8:])
    assert "repair strided_store: copy s->B made by threads" in kernel.artifact.remarks


@pytest.mark.parametrize(("target", "inside"), [("sm_80", False), ("sm_90a", False), ("sm_90a", True)])
def test_an_accumulator_that_outlives_the_loop_around_a_pipeline(target, inside):
    @T.prim_func
    def f(A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for o in T.serial(2):
                if inside:
                    T.clear(c)
                for k in T.Pipelined(2, num_stages=2):
                    T.copy(A[0, o * 64 + k * 32], a)
                    T.copy(B[o * 64 + k * 32, 0], b)
                    T.gemm(a, b, c)
            T.copy(c, C)

    a, b = torch.randn(64, 128).half(), torch.randn(128, 64).half()
    first = 64 if inside else 0
    kernel = right(f, target, (a, b, torch.empty(64, 64)), a[:, first:].float() @ b[first:].float())
    repaired = any("repair carried_fragment" in remark for remark in kernel.artifact.remarks)
    assert repaired is (target == "sm_90a")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_pipelines_of_any_trip_count_and_first_iteration(target):
    @T.prim_func
    def f(
        A: T.Tensor((64, 256), "float16"),
        B: T.Tensor((256, 64), "float16"),
        n: T.int32,
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(1, 1 + n, num_stages=3):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    kernel = compile(Program.from_primfunc(f), target=target)
    a, b = torch.randn(64, 256).half(), torch.randn(256, 64).half()
    for trips in (1, 2, 3, 4, 7):
        c = torch.empty(64, 64)
        kernel(a, b, trips, c)
        last = 32 + 32 * trips
        assert (c - a[:, 32:last].float() @ b[32:last].float()).abs().max() < 1e-2


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_pipeline_under_a_condition(target):
    @T.prim_func
    def f(
        A: T.Tensor((64, 128), "float16"),
        B: T.Tensor((128, 64), "float16"),
        M: T.Tensor((4,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                if M[k] != 0:
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, 0], b)
                    T.gemm(a, b, c)
            T.copy(c, C)

    a, b, mask = torch.randn(64, 128).half(), torch.randn(128, 64).half(), torch.tensor([1, 0, 1, 1]).int()
    kept = a.float() * mask.repeat_interleave(32)
    right(f, target, (a, b, mask, torch.empty(64, 64)), kept @ b.float())


def test_an_atomic_before_the_read_of_its_counter():
    @T.prim_func
    def f(A: T.Tensor((8, 32), "int32"), N: T.Tensor((32,), "int32"), O: T.Tensor((8, 32), "int32")):
        with T.Kernel(1, threads=32) as _:
            s = T.alloc_shared((32,), "int32")
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[k, 0], s)
                for i in T.Parallel(32):
                    T.atomic_add(N[i], s[i])
                for i in T.Parallel(32):
                    O[k, i] = N[i]

    a = torch.randint(0, 9, (8, 32)).int()
    right(f, "sm_80", (a, torch.zeros(32).int(), torch.zeros(8, 32).int()), a.cumsum(0))


def test_broadcasts_and_remainders_in_indices():
    @T.prim_func
    def f(A: T.Tensor((16, 14), "float32"), B: T.Tensor((12,), "float32"), C: T.Tensor((16, 448), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_fragment((16, 14), "float32")
            c = T.alloc_fragment((16, 448), "float32")
            T.copy(A, a)
            T.clear(c)
            for i, j in T.Parallel(16, 448):
                c[i, j] += a[i, j // 32] + B[j % 12]
            T.copy(c, C)

    a, b = torch.randn(16, 14), torch.randn(12)
    right(f, "sm_80", (a, b, torch.empty(16, 448)), a.repeat_interleave(32, 1) + b[torch.arange(448) % 12])


def test_blocks_that_reach_over_the_end_of_a_vector():
    @T.prim_func
    def f(A: T.Tensor((1000,), "float32"), C: T.Tensor((1000,), "float32")):
        with T.Kernel(4, threads=128) as bx:
            s = T.alloc_shared((256,), "float32")
            T.copy(A[bx * 256], s)
            T.copy(s, C[bx * 256])

    a = torch.randn(1000)
    right(f, "sm_90a", (a, torch.empty(1000)), a)


def test_a_length_known_only_from_a_tensor_that_no_kernel_reads():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((64,), "float32"), X: T.Tensor((n,), "int32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                C[i] = A[i] * n

    kernel = compile(Program.from_primfunc(f), target="sm_80")
    for length in (0, 5, 1000):
        c = torch.empty(64)
        kernel(torch.ones(64), torch.zeros(length, dtype=torch.int32), c)
        assert torch.equal(c, torch.full((64,), float(length)))
