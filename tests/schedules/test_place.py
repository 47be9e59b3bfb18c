"""Open tiles: where they go by themselves, where a step puts them, and what cannot be placed."""

import pytest
from schedule_programs import gemm, layer_norm, operands, softmax, wrong

from tilewright.dsl import Target, kernel
from tilewright.dsl import language as T
from tilewright.runtime import check, compile
from tilewright.schedules import Schedule
from tilewright.schedules.errors import CannotPlace, IllegalStep, IllegalValue, UnknownHandle

SM80, SM90 = Target("sm_80"), Target("sm_90a")


def scopes(program):
    return {entry.label: entry.detail.scope for entry in program.outline().buffers}


def test_use_decides():
    assert scopes(Schedule().apply(gemm.bind(), SM80)) == {
        "a": "shared.dyn",
        "b": "shared.dyn",
        "c": "local.fragment",
    }
    assert set(scopes(Schedule().apply(softmax.bind(), SM80)).values()) == {"local.fragment"}


def test_the_outline_says_open_and_describe_says_where():
    program = gemm.bind()
    assert "buffer a: open float16[64, 32]" in str(program.outline())
    lines = Schedule().place("a", "fragment").describe(program).splitlines()
    assert lines == [
        "1. place('a', 'fragment'): keep a in fragment memory",
        "by default, b in shared memory: operand B of gemm c",
        "by default, c in a fragment (registers): accumulator of gemm c",
    ]


@pytest.mark.parametrize(("factory", "target"), [(softmax, "sm_80"), (layer_norm, "sm_90a")])
def test_programs_of_open_tiles_run(factory, target):
    program = factory.bind()
    tensors = operands(program)
    kernel = compile(program, None, target)
    kernel(*tensors)
    assert not wrong(program, *tensors)


def test_operand_a_in_registers():
    program = gemm.bind()
    kernel = compile(program, Schedule().place("a", "fragment"), "sm_80")
    report = check(kernel, *operands(program), verify=lambda _, *tensors: wrong(program, *tensors))
    assert report.ok, str(report)


@kernel
def strange(case="unused"):
    @T.prim_func
    def strange(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1) as _:
            a = T.alloc_tile((64, 64), "float16")
            c = T.alloc_tile((64, 64), "float32")
            d = T.alloc_shared((64, 64), "float32")
            e = T.alloc_local((4,), "float32")
            T.clear(c)
            T.copy(A, a)
            if case != "unused":
                T.gemm(a, a, c)
            e[0] = 1.0
            if case == "scattered":
                for i, j in T.Parallel(64, 64):
                    d[i, j] = c[j, i] + e[0]
            T.copy(c, C)
            _ = T.alloc_tile((64,), "float32") if case == "unused" else None

    return strange


def test_transposed_access_needs_shared_memory():
    @T.prim_func
    def transpose(A: T.Tensor((32, 32), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1) as _:
            a = T.alloc_tile((32, 32), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(32, 32):
                C[i, j] = a[j, i]

    from tilewright.dsl import Program

    program = Program.from_primfunc(transpose)
    assert scopes(Schedule().apply(program, SM80)) == {"a": "shared.dyn"}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("unused", "open tile '.*' is used by nothing"),
        ("scattered", "open tile 'c' has no place that suits all its uses"),
    ],
)
def test_a_tile_that_cannot_be_placed_is_refused_with_its_line(case, message):
    with pytest.raises(CannotPlace, match=message) as caught:
        Schedule().apply(strange.bind(case=case), SM80)
    assert caught.value.span.file == __file__
    assert len(str(caught.value).splitlines()) <= 12


@pytest.mark.parametrize(
    ("schedule", "error", "message"),
    [
        (Schedule().place("x", "shared"), UnknownHandle, r"place\('x', 'shared'\).*nothing in strange is called 'x'"),
        (Schedule().place("a", "cache"), IllegalValue, "where must be one of 'shared', 'fragment'"),
        (Schedule().place("c", "shared"), IllegalStep, "'c' is the accumulator of gemm c, which lives in registers"),
        (Schedule().place("a", "fragment"), IllegalStep, "'a' is operand B of gemm c"),
        (Schedule().place("d", "shared"), IllegalStep, "'d' is there already"),
        (Schedule().place("e", "shared"), IllegalStep, "'e' is in local, only a tile"),
    ],
)
def test_a_place_that_does_not_suit_is_refused(schedule, error, message):
    with pytest.raises(error, match=message) as caught:
        schedule.apply(strange.bind(case="plain"), SM90)
    assert caught.value.span is not None or error is UnknownHandle
    assert len(str(caught.value).splitlines()) <= 12
