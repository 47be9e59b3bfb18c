"""Steps that change launches or add tiles: lowered, proved, run in every mode, and compared with torch in float64."""

import pytest
import torch
from schedule_programs import gemm, layer_norm, operands, softmax, wrong

from tilewright.dsl import Program, Target, kernel
from tilewright.dsl import language as T
from tilewright.runtime import check, compile
from tilewright.schedules import Schedule
from tilewright.schedules.errors import IllegalStep, IllegalValue, UnknownHandle

SM80, SM90 = Target("sm_80"), Target("sm_90a")
MODES = ("eager", "lazy", "random")  # every mode: test_library_gemm.py and test_property.py
BASE = Schedule().threads(128)
WHOLE, RAGGED = {"m": 192, "n": 128, "k": 160}, {"m": 100, "n": 136, "k": 72}

KEPT = {
    "staged store": (("sm_80",), WHOLE, BASE.stage("copy c->C")),
    "staged, swizzled, ragged": (
        ("sm_80", "sm_90a"),
        RAGGED,
        BASE.pipeline("ko", 2).stage("copy c->C").swizzle("c_staged"),
    ),
    "TMA store": (
        ("sm_90a",),
        WHOLE,
        BASE.pipeline("ko", 2).stage("copy c->C").swizzle("c_staged").copy_engine("copy c_staged->C", "tma"),
    ),
    "panels in turn": (
        ("sm_90a",),
        {"m": 320, "n": 128, "k": 96},
        BASE.pipeline("ko", 3).rasterize(2).stage("copy c->C").persistent(4),
    ),
    "panels of columns in turn": (("sm_80",), RAGGED, BASE.rasterize(2, "column").persistent(4)),
    "split, ragged": (("sm_80", "sm_90a"), RAGGED, BASE.split_k("ko", 3).stage("copy c->C")),
    "stream, ragged": (("sm_80", "sm_90a"), RAGGED, BASE.stream_k("ko", 7).pipeline("ko", 3)),
}


@pytest.mark.parametrize(("target", "case"), [(t, case) for case, row in KEPT.items() for t in row[0]])
def test_a_step_takes_hold_and_the_product_stays_right(target, case):
    _, sizes, schedule = KEPT[case]
    program = gemm.bind(**sizes)
    kernel = compile(program, schedule, target)
    report = check(kernel, *operands(program), modes=MODES, verify=lambda _, *tensors: wrong(program, *tensors))
    assert report.ok, str(report)
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert len(schedule.describe().splitlines()) == len(schedule)


def test_panels_visit_every_tile_once_in_the_order_of_the_template():
    from tilewright.dsl import tirx, tvm
    from tilewright.schedules.tiles import panel_of

    def visited(by_row, gx, gy, panel):
        name = "rasterization2DRow" if by_row else "rasterization2DColumn"
        pattern = tirx.call_intrin("handle", "tirx.tvm_tuple", tirx.StringImm(name), tirx.IntImm("int32", panel))
        found = []
        for tile in range(gx * gy):
            extents = (tirx.IntImm("int32", gx), tirx.IntImm("int32", gy))
            places = panel_of(tirx.IntImm("int32", tile), extents, pattern)
            found.append(tuple(int(tvm.arith.Analyzer().simplify(place)) for place in places))
        return found

    def expected(by_row, gx, gy, panel):
        along, across = (gx, gy) if by_row else (gy, gx)
        order = []
        for number, start in enumerate(range(0, across, panel)):
            steps = range(along) if number % 2 == 0 else reversed(range(along))
            lanes = range(start, min(start + panel, across))
            order += [(step, lane) if by_row else (lane, step) for step in steps for lane in lanes]
        return order

    for case in ((True, 3, 5, 2), (False, 5, 3, 2), (True, 4, 4, 8), (True, 2, 3, 1)):
        assert visited(*case) == expected(*case)


@kernel
def two_tiles(m=64, n=64):
    @T.prim_func
    def two_tiles(A: T.Tensor((m, n), "float32"), B: T.Tensor((m, n), "float32"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(1) as _:
            a = T.alloc_shared((m, n), "float32")
            b = T.alloc_shared((m, n), "float32")
            d = T.alloc_shared((n, m), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(m, n):
                c[i, j] = a[j, i]
            T.copy(B, b)
            for i, j in T.Parallel(m, n):
                c[i, j] += b[j, i]
            T.copy(c, d)
            T.copy(c, C)

    return two_tiles


@kernel
def in_a_loop(n=4, both=False):
    @T.prim_func
    def in_a_loop(A: T.Tensor((n, 32, 32), "float32"), C: T.Tensor((n, 32, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((32, 32), "float32")
            b = T.alloc_shared((32, 32), "float32")
            for k in T.serial(n):
                T.copy(A[k, 0, 0], a)
                for i, j in T.Parallel(32, 32):
                    C[k, i, j] = a[j, i]
                T.copy(A[k, 0, 0], b)
                for i, j in T.Parallel(32, 32):
                    C[k, i, j] += b[i, j] + (a[i, j] if both else 0.0)

    return in_a_loop


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_two_tiles_in_one_place(target):
    program = two_tiles.bind()
    schedule = BASE.alias("a", "b")
    kernel = compile(program, schedule, target)
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    report = check(
        kernel, a, b, torch.empty(64, 64), verify=lambda _, x, y, z: [] if torch.equal(z, x.T + y.T) else ["wrong"]
    )
    assert report.ok, str(report)
    assert " b = " not in kernel.cuda


def test_two_tiles_of_one_iteration_in_one_place():
    program = in_a_loop.bind()
    kernel = compile(program, Schedule().alias("a", "b"), "sm_80")
    a = torch.randn(4, 32, 32)
    want = a.transpose(1, 2) + a
    report = check(kernel, a, torch.empty(4, 32, 32), verify=lambda _, x, z: [] if torch.equal(z, want) else ["wrong"])
    assert report.ok, str(report)


@kernel
def reads(m=64, n=256, case="plain"):
    @T.prim_func
    def reads(X: T.Tensor((m, n), "float16"), W: T.Tensor((n,), "float16"), Y: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(m, 16), threads=128) as bx:
            for i, j in T.Parallel(16, n):
                if case == "plain":
                    Y[bx * 16 + i, j] = X[bx * 16 + i, j] * W[j] + X[bx * 16 + i, j]
                elif case == "twice":
                    Y[bx * 16 + i, j] = X[bx * 16 + i, j] * X[bx * 16 + i, n - 1 - j]
                elif case == "in place":
                    X[bx * 16 + i, j] = X[bx * 16 + i, j] * 2
                else:
                    Y[bx * 16 + i, j] = X[i * 2, j]

    return reads


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_reads_of_a_loop_through_shared_memory(target):
    program = reads.bind(m=40)
    kernel = compile(program, Schedule().stage("parallel Y", "X").stage("parallel Y", "W"), target)
    x, w = torch.randn(40, 256).half(), torch.randn(256).half()
    want = (x * w + x).double()

    def verify(_, __, ___, y):
        return [] if (y.double() - want).abs().max() < 0.02 else ["wrong"]

    report = check(kernel, x, w, torch.empty(40, 256).half(), verify=verify)
    assert report.ok, str(report)


def test_a_staged_load_of_a_fragment():
    program = layer_norm.bind(m=16)
    tensors = operands(program)
    compile(program, BASE.stage("copy X->x"), "sm_80")(*tensors)
    assert not wrong(program, *tensors)


@kernel
def summed(case="bound"):
    @T.prim_func
    def summed(A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, 1, *((1,) if case == "axes" else ()), threads=128) as _:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            if case != "uncleared":
                T.clear(c)
            for k in T.serial(4):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                if case == "scaled":
                    for i, j in T.Parallel(64, 64):
                        c[i, j] = c[i, j] * 0.5
                T.gemm(a, b, c)
            if case == "operand":
                for i, j in T.Parallel(64, 32):
                    c[i, j] += a[i, j]
            if case != "dropped":
                T.copy(c, C)

    return summed


def test_an_epilogue_moves_to_the_second_launch():
    @T.prim_func
    def scaled(A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, 1, threads=128) as (bx, _):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            T.clear(c)
            for k in T.serial(4):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, bx * 32], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(64, 32):
                c[i, j] = c[i, j] * c[i, j] + A[i, bx * 32 + j]
            T.copy(c, C[0, bx * 32])

    program = Program.from_primfunc(scaled)
    a, b = torch.randn(64, 128).half(), torch.randn(128, 64).half()
    want = (a.double() @ b.double()) ** 2 + a[:, :64].double()
    for schedule in (Schedule().split_k("k", 4), Schedule().stream_k("k", 3)):
        c = torch.empty(64, 64)
        compile(program, schedule, "sm_80")(a, b, c)
        assert (c.double() - want).abs().max() < 1e-2


REFUSED = [
    (gemm, {}, Schedule().stage("copy A->a"), IllegalStep, "'copy A->a' goes from global to shared.dyn"),
    (gemm, {}, Schedule().stage("copy c->C", parts=5), IllegalStep, "64 columns do not make 5 pieces of whole eights"),
    (gemm, {}, Schedule().stage("copy c->C", parts=0), IllegalValue, "parts must be a whole number from 1 to 16"),
    (softmax, {}, Schedule().stage("copy x->Y", parts=2), IllegalStep, "only the accumulator of a product can go in"),
    (softmax, {}, Schedule().place("x", "shared"), IllegalStep, "reduce_max x works on 'x' in registers"),
    (gemm, {}, Schedule().stage("gemm c"), IllegalStep, "'gemm c' is no copy and no parallel loop"),
    (gemm, {}, Schedule().stage("copy D->d"), UnknownHandle, "nothing in gemm is called 'copy D->d'"),
    (reads, {}, Schedule().stage("parallel Y"), IllegalStep, "does not read a global tensor ''"),
    (reads, {"case": "twice"}, Schedule().stage("parallel Y", "X"), IllegalStep, "reads 'X' at several places"),
    (reads, {"case": "in place"}, Schedule().stage("parallel X", "X"), IllegalStep, "also writes 'X'"),
    (reads, {"case": "strided"}, Schedule().stage("parallel Y", "X"), IllegalStep, "no start and a loop variable"),
    (two_tiles, {}, Schedule().alias("a", "a"), IllegalStep, "that is one tile"),
    (two_tiles, {}, Schedule().alias("a", "d"), IllegalStep, "only with one shape and dtype"),
    (two_tiles, {}, Schedule().alias("a", "c"), IllegalStep, "'c' is in local.fragment"),
    (in_a_loop, {"both": True}, Schedule().alias("a", "b"), IllegalStep, "are both alive at"),
    (in_a_loop, {}, Schedule().pipeline("k", 2).alias("a", "b"), IllegalStep, "keeps 2 slots of each tile"),
    (in_a_loop, {}, Schedule().alias("a", "b").pipeline("k", 2), IllegalStep, "loop 'k' fills a twice"),
    (gemm, {}, Schedule().persistent(-1), IllegalValue, "blocks must be a whole number from 0 to 65535"),
    (gemm, {}, Schedule().persistent(2).persistent(2), IllegalStep, "take tiles in turn already"),
    (gemm, {}, Schedule().cluster(1, 2).persistent(2), IllegalStep, "the launch has clusters"),
    (gemm, {}, Schedule().persistent(2).rasterize(2), IllegalStep, "in an order fixed by then"),
    (gemm, {}, Schedule().split_k("ko", 1), IllegalValue, "parts must be a whole number from 2 to 64"),
    (gemm, {}, Schedule().split_k("ko", 3), IllegalStep, "4 iterations leave some of 3 parts empty"),
    (gemm, {}, Schedule().split_k("k", 2), UnknownHandle, "nothing in gemm is called 'k'"),
    (
        gemm,
        {},
        Schedule().persistent(2).split_k("ko", 2),
        IllegalStep,
        "'ko' is no statement of the kernel itself",
    ),
    (gemm, {}, Schedule().split_k("ko", 2).persistent(2), IllegalStep, "split_k made two launches"),
    (gemm, {}, Schedule().split_k("ko", 2).swap_grid(), IllegalStep, "put this step before split_k"),
    (gemm, {}, Schedule().cluster(1, 2).stream_k("ko", 2), IllegalStep, "the launch has clusters"),
    (gemm, {"m": T.dynamic("m")}, Schedule().split_k("ko", 2), IllegalStep, "depends on shapes"),
    (gemm, {"m": T.dynamic("m")}, Schedule().stream_k("ko", 2), IllegalStep, "depends on shapes"),
    (summed, {"case": "axes"}, Schedule().split_k("k", 2), IllegalStep, "the grid has three axes"),
    (summed, {"case": "uncleared"}, Schedule().split_k("k", 2), IllegalStep, "nothing clears c before loop 'k'"),
    (summed, {"case": "scaled"}, Schedule().split_k("k", 2), IllegalStep, "does more than copy and multiply"),
    (summed, {"case": "operand"}, Schedule().split_k("k", 2), IllegalStep, "needs a, which is made before its end"),
    (summed, {"case": "dropped"}, Schedule().split_k("k", 2), IllegalStep, "nothing stores c after loop 'k'"),
    (two_tiles, {}, Schedule().split_k("i", 2), UnknownHandle, "split_k"),
]


@pytest.mark.parametrize(
    ("factory", "sizes", "schedule", "error", "message"),
    REFUSED,
    ids=[str(row[2])[10:] for row in REFUSED],
)
def test_a_step_that_cannot_be_taken_is_refused(factory, sizes, schedule, error, message):
    with pytest.raises(error, match=message) as caught:
        schedule.apply(factory.bind(**sizes), SM90)
    text = str(caught.value)
    assert str(schedule.primitives[-1].name) in text
    assert len(text.splitlines()) <= 12
    assert error in (UnknownHandle, IllegalValue) or ".py:" in text
