"""Steps of the memory hierarchy, on their whole way: applied, lowered, proved, and run in every mode."""

import re

import pytest
import torch
from schedule_programs import gemm, operands, scale, wrong

from tilewright.runtime import check, compile
from tilewright.schedules import Schedule, ScheduleNotApplied

MODES = ("eager", "lazy", "random")  # every mode: test_library_gemm.py and test_property.py
BASE = Schedule().threads(128)
LOAD = "copy A->a"

KEPT = {
    "copies through registers": ("sm_90a", BASE.copy_engine(LOAD, "sync").copy_engine("copy B->b", "sync")),
    "cp.async beside TMA": ("sm_90a", BASE.pipeline("ko", 2).copy_engine(LOAD, "cp_async")),
    "TMA named": ("sm_90a", BASE.pipeline("ko", 3).copy_engine(LOAD, "tma").copy_engine("copy B->b", "tma")),
    "synchronous copy of Ampere": ("sm_80", BASE.copy_engine(LOAD, "sync")),
    "narrow swizzle": ("sm_80", BASE.pipeline("ko", 2).swizzle("a", 64).swizzle("b", 128)),
    "narrow swizzle of wgmma": ("sm_90a", BASE.pipeline("ko", 2).swizzle("a", 64)),
    "padding": ("sm_80", BASE.pipeline("ko", 3).pad("a", 8).pad("b", 8)),
    "whole rows a warp": ("sm_80", BASE.partition("gemm c", "full_row")),
    "whole columns a warp": ("sm_80", BASE.partition("gemm c", "full_col")),
    "cache hints": ("sm_90a", BASE.pipeline("ko", 2).cache_hint(LOAD, "first").cache_hint("copy B->b", "last")),
    "clusters": ("sm_90a", BASE.pipeline("ko", 2).cluster(1, 2)),
    "overlapping tensors": ("sm_80", BASE.no_alias("C", False)),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_step_takes_hold_and_the_product_stays_right(case):
    target, schedule = KEPT[case]
    program = gemm.bind(m=128, n=128)
    kernel = compile(program, schedule, target)
    report = check(kernel, *operands(program), modes=MODES, verify=lambda _, *tensors: wrong(program, *tensors))
    assert report.ok, str(report)
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert len(schedule.describe().splitlines()) == len(schedule)


@pytest.mark.parametrize(
    ("target", "schedule", "message"),
    [
        ("sm_80", BASE.copy_engine(LOAD, "sync").pipeline("ko", 3), "A is moved by cp_async"),
        ("sm_90a", BASE.copy_engine(LOAD, "sync").cache_hint(LOAD, "first"), "0 copies of A by TMA"),
        ("sm_90a", BASE.pipeline("ko", 2).no_alias("A", False), "A is no pointer"),
        ("sm_80", BASE.vectorize("copy c->C", 8), "C by"),
    ],
)
def test_a_step_that_lowering_drops_is_an_error(target, schedule, message):
    with pytest.raises(ScheduleNotApplied, match=message) as caught:
        compile(gemm.bind(m=128, n=128), schedule, target)
    assert caught.value.span is not None
    assert len(str(caught.value).splitlines()) <= 12


@pytest.mark.parametrize("width", [1, 2, 4])
def test_elementwise_loops_take_the_width_asked_for(width):
    program = scale.bind()
    kernel = compile(program, BASE.vectorize("parallel Y", width), "sm_80")
    x, y = operands(program)
    kernel(x, y)
    assert torch.equal(y, x * 2)
    widest = {1: "u16", 2: "u32", 4: "v2.u32"}[width]
    assert set(re.findall(r"st\.global\.(\S+)", kernel.ptx)) == {widest}
