import json

import pytest

from tilewright.dsl import Program, Target, kernel
from tilewright.dsl import language as T
from tilewright.schedules import PRIMITIVES, Primitive, Schedule
from tilewright.schedules.errors import BadScheduleText, IllegalStep, IllegalValue, UnknownHandle

SM80, SM90 = Target("sm_80"), Target("sm_90a")


@kernel
def matmul(m: int = 256, n: int = 384, k: int = 128):
    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float16"),
    ):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 128), threads=128) as (bx, by):
            A_s = T.alloc_shared((128, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            C_l = T.alloc_fragment((128, 64), "float32")
            T.clear(C_l)
            for k0 in T.serial(k // 32):
                T.copy(A[by * 128, k0 * 32], A_s)
                T.copy(B[k0 * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, C_l)
            for i in T.serial(4):
                C_l[i, 0] = C_l[i, 0] * 2.0
            T.copy(C_l, C[by * 128, bx * 64])

    return main


@kernel
def one_axis(n: int = 1024):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as bx:
            for i in T.Parallel(256):
                B[bx * 256 + i] = A[bx * 256 + i] + 1.0

    return main


@pytest.fixture(scope="module")
def program() -> Program:
    return matmul.bind()


FULL = Schedule().threads(256).pipeline("k0", 3).rasterize(8).min_blocks(2).swap_grid().fast_math()


def test_every_method_appends_one_step_and_leaves_the_schedule_alone():
    base = Schedule()
    longer = base.threads(256)
    assert (len(base), len(longer), len(FULL)) == (0, 1, 6)
    assert not base
    assert longer


def test_equal_by_value_and_hashable():
    again = Schedule().threads(256).pipeline("k0", 3).rasterize(8, "row").min_blocks(2).swap_grid().fast_math()
    assert again == FULL
    assert hash(again) == hash(FULL)
    assert Schedule().threads(256) != Schedule().threads(128)
    assert Schedule().threads(256).swap_grid() != Schedule().swap_grid().threads(256)


def test_the_text_of_a_schedule_is_the_chain_that_makes_it():
    rebuilt = eval(str(FULL), {"Schedule": Schedule})
    assert rebuilt == FULL
    lines = FULL.describe().splitlines()
    assert lines[1] == "2. pipeline('k0', 3): keep 3 slots of what k0 loads, 3 - 1 iterations ahead"
    assert Schedule().describe() == "no steps: the program as written"


def test_json_round_trip():
    assert Schedule.from_json(FULL.to_json()) == FULL
    assert Schedule.from_json(Schedule().to_json()) == Schedule()
    assert json.loads(FULL.to_json())["steps"][1] == {"name": "pipeline", "loop": "k0", "depth": 3}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{", "this text is no schedule"),
        ("[1, 2]", "needs 'tilewright_schedule'"),
        ('{"tilewright_schedule": 9, "steps": []}', "schedule of version 9, this package reads version 1"),
        ('{"tilewright_schedule": 1, "steps": [{"name": "treads", "n": 8}]}', "did you mean 'threads'"),
        ('{"tilewright_schedule": 1, "steps": [{"name": "threads"}]}', "option 'n' is missing"),
        ('{"tilewright_schedule": 1, "steps": [{"name": "threads", "n": 8, "x": 1}]}', "unknown option 'x'"),
        ('{"tilewright_schedule": 1, "steps": [{"name": "threads", "n": "8"}]}', "option 'n' must be int"),
        ('{"tilewright_schedule": 1, "steps": [{"name": "threads", "n": true}]}', "option 'n' must be int"),
        ('{"tilewright_schedule": 1, "steps": [7]}', "step 1: unknown primitive None"),
    ],
)
def test_a_damaged_text_is_refused(source, message):
    with pytest.raises(BadScheduleText, match=message) as caught:
        Schedule.from_json(source)
    assert len(str(caught.value).splitlines()) <= 12


def test_the_empty_schedule_returns_the_same_object(program):
    assert Schedule().apply(program, SM90) is program


def test_every_registered_primitive_is_one():
    assert len({kind.name for kind in PRIMITIVES}) == len(PRIMITIVES)
    assert all(callable(getattr(Schedule, kind.name)) and kind.words for kind in PRIMITIVES)
    assert all(isinstance(step, Primitive) for step in FULL)


def test_threads_and_pipeline_change_the_outline(program):
    outline = Schedule().threads(256).pipeline("k0", 3).apply(program, SM80).outline()
    assert outline.grids[0].detail.thread_count == 256
    assert outline.find("k0").detail.stages == 3
    assert program.outline().grids[0].detail.thread_count == 128


def test_rasterize_and_min_blocks_wrap_the_block(program):
    text = str(Schedule().rasterize(4, "column").min_blocks(3).apply(program, SM80).outline())
    assert "rasterization2DColumn" in text
    assert "tl.min_blocks_per_sm: 3" in text


def test_swap_grid_exchanges_the_extents(program):
    axes = Schedule().swap_grid().apply(program, SM80).outline().grids[0].detail.axes
    assert axes == (("by", 2), ("bx", 6))
    twice = Schedule().swap_grid().swap_grid().apply(program, SM80)
    assert twice.outline().grids[0].detail.axes == (("bx", 6), ("by", 2))


def test_fast_math_travels_with_the_function(program):
    attributes = Schedule().fast_math().apply(program, SM80).func.attrs
    assert bool(attributes["tilelang_pass_configs"]["tl.enable_fast_math"])


def test_source_lines_survive(program):
    before = {entry.label: entry.span for entry in program.outline().walk()}
    after = {entry.label: entry.span for entry in FULL.apply(program, SM80).outline().walk()}
    assert all(after[label] == span for label, span in before.items())


@pytest.mark.parametrize(
    ("schedule", "error", "message"),
    [
        (Schedule().pipeline("kk", 2), UnknownHandle, r"pipeline\('kk', 2\).*nothing in matmul is called 'kk'"),
        (Schedule().pipeline("k0", 0), IllegalValue, "depth must be a whole number from 1 to 16"),
        (Schedule().pipeline("i", 2), IllegalStep, "loop 'i' copies no tile"),
        (Schedule().threads(100), IllegalValue, "n must be a multiple of the warp size 32"),
        (Schedule().threads(2048), IllegalValue, "n must be a whole number from 32 to 1024"),
        (Schedule().threads(True), IllegalValue, "n must be a whole number"),
        (Schedule().rasterize(8, "diagonal"), IllegalValue, "order must be 'row' or 'column'"),
        (Schedule().rasterize(0), IllegalValue, "panel must be a whole number from 1 to 1024"),
        (Schedule().min_blocks(64), IllegalValue, "n must be a whole number from 1 to 32"),
    ],
)
def test_a_step_that_cannot_be_taken_is_refused(program, schedule, error, message):
    with pytest.raises(error, match=message) as caught:
        schedule.apply(program, SM90)
    assert len(str(caught.value).splitlines()) <= 12


def test_an_unknown_loop_lists_the_loops(program):
    with pytest.raises(UnknownHandle) as caught:
        Schedule().pipeline("k1", 2).apply(program, SM90)
    assert "k0" in str(caught.value)


def test_errors_name_the_line(program):
    with pytest.raises(IllegalStep) as caught:
        Schedule().pipeline("i", 2).apply(program, SM90)
    assert caught.value.span.file == __file__
    assert "for i in T.serial(4)" in str(caught.value)


@pytest.mark.parametrize("schedule", [Schedule().rasterize(8), Schedule().swap_grid()])
def test_a_grid_of_one_axis_has_one_order(schedule):
    with pytest.raises(IllegalStep, match="the grid of one_axis has one axis"):
        schedule.apply(one_axis.bind(), SM90)


def test_a_parallel_loop_cannot_be_pipelined():
    label = next(entry.label for entry in one_axis.bind().outline().loops)
    with pytest.raises(IllegalStep, match="is parallel, only a serial loop can be pipelined"):
        Schedule().pipeline(label, 2).apply(one_axis.bind(), SM90)
