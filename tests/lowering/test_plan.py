"""Launch plans of lowered kernels against values derived by hand from the kernels."""

import json

import pytest

from tilewright.dsl import Program, Target
from tilewright.dsl import language as T
from tilewright.lowering import (
    LaunchPlan,
    Options,
    PointerParameter,
    ScalarArgument,
    ScalarParameter,
    TensorMapParameter,
    VariableSource,
)
from tilewright.lowering.errors import BadPlan, UnsupportedHostCode
from tilewright.lowering.plan_extract import extract_plan
from tilewright.lowering.tilelang_lower import lower_with_tilelang


def plan_of(program, target="sm_90a"):
    lowered = lower_with_tilelang(program, Target(target), Options())
    return extract_plan(program.func, lowered.host, lowered.device, lowered.cuda, program.name)[0]


def texts(expressions):
    return [e.text for e in expressions]


def values(expressions, **variables):
    return [e.evaluate(**variables) for e in expressions]


def test_static_gemm_without_tma(gemm):
    plan = plan_of(gemm(256, 192, 64), "sm_80")
    (launch,) = plan.launches
    assert values(launch.grid) == [3, 4, 1]
    assert values(launch.block) == [128, 1, 1]
    assert launch.dynamic_shared.evaluate() == 2 * (64 * 32 + 32 * 64) * 2  # two stages of A and B in half precision
    assert launch.parameters == (PointerParameter("A"), PointerParameter("B"), PointerParameter("C"))
    assert [(a.name, a.dtype, values(a.shape), a.strides) for a in plan.arguments] == [
        ("A", "float16", [256, 64], None),
        ("B", "float16", [64, 192], None),
        ("C", "float16", [256, 192], None),
    ]
    assert [a.written for a in plan.arguments] == [False, False, True]
    assert plan.variables == ()
    assert launch.cluster is None


def test_tma_gemm_tensor_maps(gemm):
    (launch,) = plan_of(gemm(256, 192, 128, store=True)).launches
    a, b, c = launch.parameters
    assert all(isinstance(p, TensorMapParameter) for p in (a, b, c))
    assert (a.tensor, a.dtype, values(a.dims), values(a.strides), values(a.box)) == (
        "A",
        "float16",
        [128, 256],
        [256],
        [32, 64],
    )
    assert (b.tensor, values(b.dims), values(b.strides), values(b.box)) == ("B", [192, 128], [384], [64, 32])
    assert (c.tensor, values(c.dims), values(c.strides)) == ("C", [192, 256], [384])
    # a row of the box decides the swizzle: 64 bytes -> 2, 128 bytes -> 3 (CUtensorMapSwizzle)
    assert (a.swizzle, b.swizzle) == (2, 3)
    assert (a.interleave, a.oob_fill, values(a.element_strides)) == (0, 0, [1, 1])
    assert values(launch.block) == [256, 1, 1]  # 128 of the kernel and a producer warpgroup


def test_tensors_written_through_a_tensor_map(gemm):
    plan = plan_of(gemm(256, 192, 128, store=True))
    assert [a.written for a in plan.arguments] == [False, False, True]


def test_dynamic_gemm(gemm):
    m, n, k = T.dynamic("M"), T.dynamic("N"), T.dynamic("K")
    plan = plan_of(gemm(m, n, k, tile=(64, 128, 64)))
    assert plan.variables == ("M", "K", "N")
    assert plan.sources == (
        VariableSource("M", "A", "shape", 0),
        VariableSource("K", "A", "shape", 1),
        VariableSource("N", "B", "shape", 1),
    )
    (launch,) = plan.launches
    assert values(launch.grid, M=1000, N=520, K=8) == [5, 16, 1]
    assert [a.strides for a in plan.arguments] == [None, None, None]
    a, _b, c, *scalars = launch.parameters
    assert values(a.dims, K=264, M=1000) == [264, 1000]
    assert values(a.strides, K=264) == [528]
    assert c == PointerParameter("C")
    assert [(s.name, s.dtype, s.value.text) for s in scalars] == [
        ("K", "int32", "K"),
        ("M", "int32", "M"),
        ("N", "int32", "N"),
    ]


def test_several_launches():
    @T.prim_func
    def two(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            B[t] = A[t] + 1.0
        with T.Kernel(2, threads=64) as bx:
            t = T.get_thread_binding()
            B[bx * 64 + t] = B[bx * 64 + t] * 2.0

    plan = plan_of(Program.from_primfunc(two))
    assert [(launch.kernel, values(launch.grid), values(launch.block)) for launch in plan.launches] == [
        ("two_kernel", [1, 1, 1], [128, 1, 1]),
        ("two_kernel_1", [2, 1, 1], [64, 1, 1]),
    ]
    assert [texts_of(launch) for launch in plan.launches] == [["A", "B"], ["B"]]


def texts_of(launch):
    return [p.tensor for p in launch.parameters]


def strided_program():
    m, s = T.dynamic("M"), T.dynamic("S")

    @T.prim_func
    def strided(
        A: T.StridedTensor((m, 64), (s, 1), "float32"),
        B: T.Tensor((m, 64), "float32"),
        alpha: T.float32,
        n: T.int64,
        k: T.int32,
    ):
        with T.Kernel(T.ceildiv(m, 32), threads=64) as bx:
            for i, j in T.Parallel(32, 64):
                if bx * 32 + i < n:
                    B[bx * 32 + i, j] = A[bx * 32 + i, j] * alpha + k

    return Program.from_primfunc(strided)


def test_symbolic_strides_and_scalars():
    plan = plan_of(strided_program())
    a, b, *scalars = plan.arguments
    assert (texts(a.strides), b.strides) == (["S", "1"], None)
    assert scalars == [ScalarArgument("alpha", "float32"), ScalarArgument("n", "int64"), ScalarArgument("k", "int32")]
    assert VariableSource("S", "A", "stride", 0) in plan.sources
    assert VariableSource("n", "n", "scalar", -1, dtype="int64") in plan.sources
    (launch,) = plan.launches
    assert [(p.name, p.dtype) for p in launch.parameters if isinstance(p, ScalarParameter)] == [
        ("M", "int32"),
        ("S", "int32"),
        ("alpha", "float32"),
        ("k", "int32"),
        ("n", "int64"),
    ]


def test_bare_pointers():
    @T.prim_func
    def ptrs(p: T.ptr, q: T.ptr, m: T.int32):
        A = T.make_tensor(p, (m, 64), "float32")
        B = T.make_tensor(q, (m, 64), "float32")
        with T.Kernel(m, threads=64) as bx:
            for j in T.Parallel(64):
                B[bx, j] = A[bx, j] + 1.0

    plan = plan_of(Program.from_primfunc(ptrs))
    assert [a.name for a in plan.arguments] == ["p", "q", "m"]
    assert texts_of_pointers(plan) == ["p", "q"]
    assert values(plan.launches[0].grid, m=9) == [9, 1, 1]


def texts_of_pointers(plan):
    return [p.tensor for p in plan.launches[0].parameters if isinstance(p, PointerParameter)]


def test_kernel_without_arguments():
    @T.prim_func
    def nothing():
        with T.Kernel(3, threads=32) as bx:
            T.device_assert(bx < 3)

    plan = plan_of(Program.from_primfunc(nothing))
    assert (plan.arguments, plan.launches[0].parameters) == ((), ())
    assert values(plan.launches[0].grid) == [3, 1, 1]


def test_dimensions_that_are_expressions():
    k8 = T.dynamic("K8")

    @T.prim_func
    def shaped(A: T.Tensor((k8 * 8, 64), "float32"), B: T.Tensor((k8 * 2 + 1, 64), "float32")):
        with T.Kernel(T.ceildiv(k8, 4), threads=64) as bx:
            for i, j in T.Parallel(32, 64):
                A[bx * 32 + i, j] = B[bx * 4, j]

    plan = plan_of(Program.from_primfunc(shaped))
    (source,) = plan.sources
    assert (source.variable, source.argument, source.axis, source.value.evaluate(x=48)) == ("K8", "A", 0, 6)
    assert [values(a.shape, K8=6) for a in plan.arguments] == [[48, 64], [13, 64]]


def test_two_variables_of_one_name_stay_apart():
    first, second = T.dynamic("M"), T.dynamic("M")

    @T.prim_func
    def same(A: T.Tensor((first, 64), "float32"), B: T.Tensor((second, 64), "float32")):
        with T.Kernel(T.ceildiv(first, 32), threads=64) as bx:
            for i, j in T.Parallel(32, 64):
                B[bx * 32 + i, j] = A[bx * 32 + i, j]

    plan = plan_of(Program.from_primfunc(same))
    assert plan.variables == ("M", "M_1")
    assert [texts(a.shape) for a in plan.arguments] == [["M", "64"], ["M_1", "64"]]


def test_cluster():
    @T.prim_func
    def clustered(A: T.Tensor((256, 64), "float16"), B: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128, cluster_dims=(2, 1, 1)) as bx:
            s = T.alloc_shared((64, 64), "float16")
            T.copy(A[bx * 64, 0], s)
            T.copy(s, B[bx * 64, 0])

    (launch,) = plan_of(Program.from_primfunc(clustered)).launches
    assert (launch.cluster, values(launch.grid)) == ((2, 1, 1), [4, 1, 1])


def test_cooperative_launch():
    @T.prim_func
    def synced(A: T.Tensor((256,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            t = T.get_thread_binding()
            A[bx * 128 + t] = 1.0
            T.sync_grid()
            A[bx * 128 + t] = A[(1 - bx) * 128 + t] + 1.0

    (launch,) = plan_of(Program.from_primfunc(synced)).launches
    assert (launch.cooperative, launch.programmatic) == (True, False)


def test_a_condition_around_a_launch_is_refused():
    n = T.dynamic("N")

    @T.prim_func
    def conditional(A: T.Tensor((n,), "float32")):
        if n > 5:
            with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
                for i in T.Parallel(128):
                    A[bx * 128 + i] = 1.0

    with pytest.raises(UnsupportedHostCode, match="a condition around a launch"):
        plan_of(Program.from_primfunc(conditional))


def test_a_loop_around_a_launch_is_refused():
    n = T.dynamic("N")

    @T.prim_func
    def looped(A: T.Tensor((n,), "float32")):
        for r in range(3):
            with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
                for i in T.Parallel(128):
                    A[bx * 128 + i] = 1.0 * r

    with pytest.raises(UnsupportedHostCode, match="a loop around a launch"):
        plan_of(Program.from_primfunc(looped))


def test_scratch_memory_of_the_host_is_an_argument_after_the_users():
    n = T.dynamic("N")

    @T.prim_func
    def scratch(A: T.Tensor((n, 64), "float32"), g_1: T.Tensor((n, 64), "float32")):
        g = T.alloc_global((n, 64), "float16")
        with T.Kernel(n, threads=64) as bx:
            for i in T.Parallel(64):
                g[bx, i] = A[bx, i]
        with T.Kernel(n, threads=64) as bx:
            for i in T.Parallel(64):
                g_1[bx, i] = g[bx, i]

    plan = plan_of(Program.from_primfunc(scratch))
    assert [(a.name, a.workspace) for a in plan.arguments] == [("A", False), ("g_1", False), ("g", True)]
    assert plan.arguments[2].dtype == "float16"
    elements = 1
    for extent in plan.arguments[2].shape:
        elements *= extent.evaluate(N=5)
    assert elements == 5 * 64
    assert [{p.tensor for p in launch.parameters if hasattr(p, "tensor")} for launch in plan.launches] == [
        {"A", "g"},
        {"g", "g_1"},
    ]
    assert LaunchPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    ("dtype", "stored"), [("int4", "int8"), ("uint4", "uint8"), ("float4_e2m1fn", "float4_e2m1fn_x2")]
)
def test_half_bytes_are_passed_in_pairs(dtype, stored):
    n = T.dynamic("N")

    @T.prim_func
    def pairs(A: T.Tensor((n, 64), dtype), B: T.Tensor((n, 64), dtype)):
        with T.Kernel(n, threads=32) as bx:
            T.copy(A[bx, 0:64], B[bx, 0:64])

    plan = plan_of(Program.from_primfunc(pairs))
    assert [(a.dtype, a.shape[1].text, a.shape[0].text) for a in plan.arguments] == [(stored, "32", "N")] * 2


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_json_round_trip(gemm, target):
    m = T.dynamic("M")
    plan = plan_of(gemm(m, 128, 64), target)
    assert LaunchPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize("record", [{}, {"version": 99}, {"version": 1, "name": "x", "arguments": [{"type": "Nope"}]}])
def test_unreadable_json(record):
    with pytest.raises(BadPlan, match="launch plan"):
        LaunchPlan.from_json(record)
