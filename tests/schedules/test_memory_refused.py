"""Steps of the memory hierarchy that a program or target cannot take: each message names handle and line."""

import pytest
from schedule_programs import gemm, operands, scale

from tilewright.dsl import Target
from tilewright.schedules import Schedule
from tilewright.schedules.errors import IllegalStep, IllegalValue, UnknownHandle, WrongTarget

LOAD, STORE = "copy A->a", "copy c->C"
STAGED = Schedule()

REFUSED = [
    ("sm_80", Schedule().copy_engine(LOAD, "tma"), WrongTarget, r"copy_engine\('copy A->a', 'tma'\): sm_80 has no TMA"),
    ("sm_80", Schedule().copy_engine(LOAD, "dma"), IllegalValue, "engine must be one of 'tma', 'cp_async', 'sync'"),
    ("sm_80", Schedule().copy_engine(STORE, "sync"), IllegalStep, "'copy c->C' does not go between global and shared"),
    ("sm_80", Schedule().copy_engine("gemm c", "sync"), IllegalStep, "'gemm c' is no copy"),
    ("sm_80", Schedule().copy_engine("copy A->x", "sync"), UnknownHandle, "nothing in gemm is called 'copy A->x'"),
    ("sm_80", Schedule().copy_engine("copy", "sync"), UnknownHandle, "'copy' names 3 things in gemm"),
    ("sm_80", Schedule().pipeline("ko", 3).copy_engine(LOAD, "sync"), IllegalStep, "is in a pipelined loop"),
    ("sm_80", Schedule().cache_hint(LOAD, "first"), WrongTarget, "sm_80 has no TMA, whose copies alone carry a hint"),
    ("sm_90a", Schedule().cache_hint(LOAD, "never"), IllegalValue, "policy must be one of 'normal', 'first', 'last'"),
    ("sm_90a", Schedule().cache_hint(STORE, "first"), IllegalStep, "does not load from global into shared memory"),
    ("sm_80", Schedule().swizzle("c"), IllegalStep, r"swizzle\('c', 128\): 'c' is in local.fragment"),
    ("sm_80", Schedule().swizzle("a", 48), IllegalValue, "width must be 128, 64 or 32 bytes"),
    ("sm_80", Schedule().swizzle("a", 128), IllegalStep, "'a' has no rows of whole 128 bytes in eights"),
    ("sm_80", Schedule().swizzle("a", 64).swizzle("a", 32), IllegalStep, "a has a layout already"),
    ("sm_80", Schedule().pad("a", 8).swizzle("a", 64), IllegalStep, "a has a layout already"),
    ("sm_80", Schedule().pad("a", 3), IllegalStep, "would not start at multiples of 16 bytes"),
    ("sm_80", Schedule().pad("a", 0), IllegalValue, "elements must be a whole number from 1 to 1024"),
    ("sm_90a", Schedule().pad("a", 8), IllegalStep, "copy A->a goes through a tensor map on sm_90a"),
    ("sm_90a", Schedule().copy_engine(LOAD, "sync").pad("a", 8), IllegalStep, "gemm c on sm_90a reads swizzled rows"),
    ("sm_80", Schedule().partition("gemm c", "rows"), IllegalValue, "policy must be one of 'square', 'full_row'"),
    ("sm_80", Schedule().partition("gemm c", "square"), IllegalStep, "'gemm c' is divided so already"),
    ("sm_80", Schedule().partition(LOAD, "square"), IllegalStep, "'copy A->a' is no gemm"),
    ("sm_80", Schedule().cluster(2), WrongTarget, "sm_80 has no clusters"),
    ("sm_90a", Schedule().cluster(2), IllegalStep, "2 does not divide the grid's 3 blocks along x"),
    ("sm_90a", Schedule().cluster(1, 2, multicast=True), IllegalStep, "multicast loads race"),
    ("sm_90a", Schedule().cluster(1), IllegalStep, "a cluster has 2 to 8 blocks, this one has 1"),
    ("sm_90a", Schedule().cluster(0), IllegalValue, "x must be a whole number from 1 to 8"),
    ("sm_80", Schedule().vectorize("gemm c", 4), IllegalStep, "'gemm c' is no parallel loop and no copy"),
    ("sm_80", Schedule().vectorize(STORE, 3), IllegalValue, "width must be 1, 2, 4, 8 or 16 elements"),
    ("sm_80", Schedule().vectorize(STORE, 16), IllegalStep, "16 elements do not make whole accesses"),
    ("sm_80", Schedule().no_alias("D"), UnknownHandle, "gemm has no tensor 'D'"),
    ("sm_80", Schedule().no_alias("C"), IllegalStep, "that is promised already"),
    ("sm_80", Schedule().no_alias("C", False).no_alias("C", False), IllegalStep, "that is not promised already"),
]


@pytest.mark.parametrize(("target", "schedule", "error", "message"), REFUSED, ids=[str(row[1])[10:] for row in REFUSED])
def test_a_step_that_cannot_be_taken_is_refused(target, schedule, error, message):
    with pytest.raises(error, match=message) as caught:
        schedule.apply(gemm.bind(), Target(target))
    text = str(caught.value)
    assert str(schedule.primitives[-1].name) in text
    assert len(text.splitlines()) <= 12
    assert error in (UnknownHandle, IllegalValue) or "schedule_programs.py:" in text


def test_registers_have_no_vectors():
    with pytest.raises(UnknownHandle, match="nothing in scale"):
        Schedule().vectorize("parallel X", 2).apply(scale.bind(), Target("sm_80"))


def test_a_promise_taken_back_can_be_given_again():
    program = gemm.bind()
    again = Schedule().no_alias("C", False).no_alias("C").apply(program, Target("sm_80"))
    assert again.outline().grids[0].detail.annotations.keys() <= {"tl.launch_threads"}
    assert len(operands(program)) == 3
