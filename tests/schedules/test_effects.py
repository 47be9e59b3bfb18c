"""Proofs after lowering, on artifacts that keep a step and on artifacts that dropped it."""

from dataclasses import dataclass, field

import pytest

from tilewright.dsl import Target
from tilewright.schedules import Schedule, ScheduleNotApplied
from tilewright.schedules.evidence import evaluated

SM80, SM90 = Target("sm_80"), Target("sm_90a")


@dataclass(frozen=True)
class Count:
    function: object
    variables: tuple[str, ...] = ()

    def evaluate(self, **values):
        return self.function(**values) if self.variables else self.function


@dataclass(frozen=True)
class Launch:
    grid: tuple
    block: tuple


@dataclass(frozen=True)
class Plan:
    launches: tuple
    arguments: tuple = ()


@dataclass(frozen=True)
class Code:
    cuda: str = ""
    ptx: str = ""
    program_text: str = ""
    target: Target = SM80
    threads: int = 128
    layouts: tuple = ()
    grid: tuple = (Count(1), Count(1), Count(1))
    plan: Plan = field(init=False)

    def __post_init__(self):
        block = (Count(self.threads), Count(1), Count(1))
        object.__setattr__(self, "plan", Plan((Launch(self.grid, block),)))


TEXT = """
for by in T.thread_binding((M + 128 - 1) // 128, thread="blockIdx.x"):
    for bx in T.thread_binding((N + 64 - 1) // 64, thread="blockIdx.y"):
"""
ROWS = Count(lambda M: (M + 127) // 128, ("M",))
COLUMNS = Count(lambda N: (N + 63) // 64, ("N",))


@pytest.mark.parametrize(
    ("schedule", "code"),
    [
        (Schedule().threads(256), Code(threads=256)),
        (Schedule().threads(256), Code(threads=384, target=SM90)),
        (Schedule().pipeline("k", 1), Code()),
        (Schedule().pipeline("k", 3), Code(cuda="tl::cp_async_wait<2>();")),
        (Schedule().pipeline("k", 4), Code(cuda="uint64_t mbarrier_mem[8];", target=SM90)),
        (Schedule().pipeline("k", 2), Code(cuda="As[(((k + 1) & 1) * 4096)]")),
        (Schedule().pipeline("k", 3), Code(cuda="As[((k_1 % 3) * 4096)]")),
        (Schedule().rasterize(8), Code(cuda="tl::rasterization2DRow<8>()")),
        (Schedule().rasterize(4, "column"), Code(cuda="tl::rasterization2DColumn<4>()")),
        (Schedule().min_blocks(2), Code(cuda="void __launch_bounds__(128, 2) main_kernel(float* A) {")),
        (Schedule().swap_grid(), Code(program_text=TEXT, grid=(ROWS, COLUMNS, Count(1)))),
        (Schedule().fast_math(), Code(ptx="add.ftz.f32 %f1, %f2, %f3;")),
    ],
)
def test_code_that_shows_the_step_passes(schedule, code):
    schedule.verify(code)


@pytest.mark.parametrize(
    ("schedule", "code", "message"),
    [
        (Schedule().threads(256), Code(threads=128), r"threads\(256\) was dropped by lowering for sm_80"),
        (Schedule().threads(256), Code(threads=384), "384 threads a block"),
        (Schedule().pipeline("k", 3), Code(cuda="tl::cp_async_wait<1>();"), "no slot index modulo 3"),
        (Schedule().pipeline("k", 4), Code(cuda="mbarrier_mem[4]"), "4 barriers"),
        (Schedule().pipeline("k", 2), Code(cuda="x = ((tid & 1) * 4)"), "no slot index modulo 2"),
        (Schedule().rasterize(8), Code(cuda="tl::rasterization2DRow<4>()"), "no call of rasterization2DRow<8>"),
        (Schedule().min_blocks(2), Code(cuda="__launch_bounds__(128, 1) main_kernel(int a) {"), "launch bounds 1"),
        (Schedule().min_blocks(2), Code(), "launch bounds missing"),
        (Schedule().swap_grid(), Code(program_text=TEXT, grid=(COLUMNS, ROWS, Count(1))), "blocks along x"),
        (Schedule().fast_math(), Code(ptx="add.f32 %f1, %f2, %f3;"), "no .ftz instruction"),
    ],
)
def test_code_that_dropped_the_step_fails(schedule, code, message):
    with pytest.raises(ScheduleNotApplied, match=message):
        schedule.verify(code)


def test_extents_are_evaluated():
    assert evaluated("(M + 128 - 1) // 128 * T.min(N, 7) % 1000", {"M": 300, "N": 9}) == 21
    with pytest.raises(ValueError, match="cannot evaluate"):
        evaluated("__import__('os')", {})
