"""Schedules on their whole way: applied, lowered, and proved in the code that comes out."""

import warnings

import pytest

from tilewright.dsl import Target, kernel
from tilewright.dsl import language as T
from tilewright.lowering import lower
from tilewright.schedules import Schedule, ScheduleNotApplied

SM80, SM90 = Target("sm_80"), Target("sm_90a")


@kernel
def product(m: int = 256, n: int = 192, k: int = 128):
    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float16"),
        B: T.Tensor((k, n), "float16"),
        C: T.Tensor((m, n), "float16"),
    ):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for step in T.serial(k // 32):
                T.copy(A[by * 64, step * 32], A_s)
                T.copy(B[step * 32, bx * 64], B_s)
                T.gemm(A_s, B_s, C_l)
            for i, j in T.Parallel(64, 64):
                C_l[i, j] = C_l[i, j] / 3.0
            T.copy(C_l, C[by * 64, bx * 64])

    return main


@kernel
def nested(n: int = 512):
    @T.prim_func
    def main(A: T.Tensor((n, 128), "float16"), B: T.Tensor((n, 128), "float16")):
        with T.Kernel(1, threads=128) as bx:
            A_s = T.alloc_shared((16, 128), "float16")
            for outer in T.serial(n // 64):
                for inner in T.serial(4):
                    T.copy(A[outer * 64 + inner * 16, 0], A_s)
                    T.copy(A_s, B[outer * 64 + inner * 16, bx])

    return main


@pytest.mark.parametrize("target", [SM80, SM90])
def test_every_step_takes_hold(target):
    schedule = Schedule().threads(128).pipeline("step", 3).rasterize(4, "column").min_blocks(2).swap_grid().fast_math()
    artifact = lower(product.bind(), schedule, target)
    launch = artifact.plan.launches[0]
    assert [size.evaluate() for size in launch.grid] == [4, 3, 1]
    assert "rasterization2DColumn<4>" in artifact.cuda
    assert ".ftz." in artifact.ptx
    assert artifact.schedule == schedule


def test_the_program_as_written_has_none_of_them():
    artifact = lower(product.bind(), None, SM80)
    assert "rasterization2D" not in artifact.cuda
    assert ".ftz." not in artifact.ptx
    assert [size.evaluate() for size in artifact.plan.launches[0].grid] == [3, 4, 1]
    with pytest.raises(ScheduleNotApplied, match="pipeline"):
        Schedule().pipeline("step", 3).verify(artifact)


def test_a_pipeline_that_lowering_drops_is_an_error_with_the_line():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ScheduleNotApplied, match=r"pipeline\('outer', 3\) was dropped") as caught:
            lower(nested.bind(), Schedule().pipeline("outer", 3), SM80)
    assert "for outer in T.serial(n // 64)" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 12
