"""Warp roles and turns: what they refuse, what they compute, and the recipes of attention made of them."""

from pathlib import Path

import pytest
from attention_program import attention, reference, tensors
from schedule_programs import gemm, softmax

import tilewright as tw
from tilewright.dsl import Target
from tilewright.lowering import lower
from tilewright.runtime import recording
from tilewright.schedules import Schedule, ScheduleNotApplied
from tilewright.schedules.errors import IllegalStep, IllegalValue, UnknownHandle, WrongTarget
from tilewright.schedules.library import ampere, hopper

SM80, SM90 = Target("sm_80"), Target("sm_90a")
ROWS = Schedule().partition("gemm S", "full_row").partition("gemm total", "full_row")
ROLES = ROWS.pipeline("k", 2).specialize()


def checked(program, schedule, target, causal):
    """Run a kernel and all checks; the kernel."""
    kernel = tw.compile(program, schedule, target)
    q, k, v, out = tensors(program)
    kernel(q, k, v, out)
    assert (out.double() - reference(q, k, v, causal)).abs().max() < 2e-3
    report = tw.check(kernel, q, k, v, out)
    assert report.ok, str(report)
    return kernel


@pytest.mark.parametrize(
    ("schedule", "error", "message"),
    [
        (Schedule().specialize(4), IllegalValue, "consumers must be a whole number from 1 to 3"),
        (Schedule().specialize(2, 23), IllegalValue, "producer_registers must be a whole number from 24 to 256"),
        (Schedule().specialize(2, 24, 236), IllegalValue, "consumer_registers must be a multiple of 8"),
        (Schedule().specialize(3, 24, 240), IllegalValue, "the roles need more registers than a multiprocessor has"),
        (ROLES.specialize(), IllegalStep, "attention has roles already"),
        (ROLES.ping_pong("k", "gemm total", "gemm S"), IllegalStep, "'gemm S' runs before 'gemm total'"),
        (ROLES.ping_pong("k", "gemm S", "gemm X"), UnknownHandle, "the consumers of 'k' run 'gemm X' 0 times"),
        (
            ROLES.ping_pong("k", *("gemm S",) * 2).ping_pong("k", *("gemm S",) * 2),
            IllegalStep,
            "take turns in 'k' already",
        ),
        (ROWS.specialize(1).ping_pong("k", "gemm S", "gemm S"), IllegalStep, "run by one consumer"),
        (ROWS.ping_pong("k", "gemm S", "gemm S"), IllegalStep, "'k' has no roles that could take turns"),
        (
            ROWS.overlap("k", "gemm S").specialize(),
            IllegalStep,
            "'parallel S' is of stage 1 but no statement beside it touches a tile that the producer loads",
        ),
    ],
)
def test_refusals_name_handle_and_remedy(schedule, error, message):
    with pytest.raises(error, match=message) as caught:
        schedule.apply(attention.bind(tile_m=128), SM90)
    if error is IllegalStep:
        assert "attention_program.py:" in str(caught.value)


def test_roles_need_a_machine_and_a_load():
    with pytest.raises(WrongTarget, match="sm_80 has no warp roles"):
        ROLES.apply(attention.bind(), SM80)
    with pytest.raises(IllegalStep, match="softmax loads no shared tile"):
        Schedule().place("x", "fragment").specialize().apply(softmax.bind(), SM90)


def test_recipes_refuse_what_they_are_not_for():
    with pytest.raises(UnknownHandle, match="gemm has no loop of two matrix products"):
        hopper.attention(gemm.bind())
    with pytest.raises(IllegalValue, match="order must be 'scores_first' or 'values_first'"):
        hopper.attention(attention.bind(), order="fast")
    with pytest.raises(IllegalValue, match="a tile must have 64, 128 or 192 queries"):
        hopper.attention(attention.bind(tile_m=256))


def test_roles_that_lowering_dropped_are_an_error():
    plain = lower(attention.bind(tile_m=128), ROWS.pipeline("k", 2).threads(256), SM90)
    with pytest.raises(ScheduleNotApplied, match=r"specialize\(3, 32, 160\) was dropped"):
        Schedule().specialize(3, 32, 160).verify(plain)
    with pytest.raises(ScheduleNotApplied, match="0 waits and 0 arrivals"):
        Schedule().ping_pong("k", "gemm S", "gemm total").verify(plain)


def test_steps_survive_json():
    schedule = hopper.attention(attention.bind(tile_m=128))
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert str(schedule).endswith(".specialize(2, 24, 240).ping_pong('k', 'gemm S', 'gemm total')")


HOPPER = {
    "scores_first": hopper.attention,
    "values_first": lambda program: hopper.attention(program, order="values_first"),
    "roles": lambda program: ROLES,
    "persistent": lambda program: hopper.attention(program, persistent=2, ping_pong=False),
}


@pytest.mark.parametrize("name", HOPPER)
def test_attention_on_hopper(name):
    cases = [(True, 130, 130)]  # causal: one block of keys, and three
    if name == "scores_first":
        cases.append((False, 100, 250))
    for causal, queries, keys in cases:
        program = attention.bind(queries=queries, keys=keys, causal=causal, tile_m=128, heads=2)
        kernel = checked(program, HOPPER[name](program), SM90, causal)
        assert "wgmma.mma_async" in kernel.ptx
        assert "cp.async.bulk.tensor" in kernel.ptx
        assert not any(resource.spill_stores for resource in kernel.resources)


@pytest.mark.parametrize("ahead", [False, True])
def test_attention_on_ampere(ahead):
    for causal, queries, keys in ((False, 100, 250), (True, 130, 130))[: 1 + ahead]:
        program = attention.bind(queries=queries, keys=keys, causal=causal)
        kernel = checked(program, ampere.attention(program, ahead=ahead), SM80, causal)
        assert "cp.async.cg" in kernel.ptx
        assert not any(resource.spill_stores for resource in kernel.resources)


def test_the_guide_shows_what_the_program_says():
    guide = (Path(__file__).parents[2] / "docs" / "guide-schedules.md").read_text()
    program = attention.bind(queries=128, keys=2048, dim=128, tile_m=128, tile_n=128)
    loop = str(program.outline()).partition("    loop k:")[2].partition("    parallel total#2")[0]
    lines = ["loop k:" + loop.splitlines()[0], *loop.splitlines()[1:]]
    for line in lines:
        assert line.partition("  line ")[0].strip().removesuffix(" line").split(" line ")[0].strip() in guide
    with pytest.raises(IllegalStep) as caught:
        Schedule().order("k", ("parallel S", "gemm S")).apply(program, SM90)
    assert str(caught.value).splitlines()[0] in guide
    short = ROWS.pipeline("k", 2).order("k", ("gemm S", "parallel total", "parallel S"), (0, 1, 0))
    steps = short.specialize(2, 24, 240).ping_pong("k", "gemm S", "gemm total")
    assert steps.apply(program, SM90) == hopper.attention(program).apply(program, SM90)


@pytest.mark.long
def test_the_recipe_beside_the_default():
    programs = {n: attention.bind(queries=128, keys=n, dim=128, tile_m=128, tile_n=128) for n in (1024, 2048)}

    def counted(schedule):
        found = {}
        for keys, program in programs.items():
            kernel = tw.compile(program, schedule, SM90)
            assert not kernel.resources[0].spill_stores
            assert not kernel.resources[0].remarks
            with recording("eager", checks=("banks", "sectors", "traffic")) as reports:
                kernel(*tensors(program))
            found[keys] = reports[0].counts
        return found

    default = counted(ROWS.threads(256).pipeline("k", 2))
    loop = default[2048]["instructions"] - default[1024]["instructions"]
    for turns, most in ((False, 1.0), (True, 1.03)):
        recipe = counted(hopper.attention(programs[1024], ping_pong=turns))
        assert recipe[2048]["instructions"] - recipe[1024]["instructions"] <= most * loop
        assert recipe[2048]["shared.conflicts"] == 0
        assert recipe[2048]["global.bytes"] <= default[2048]["global.bytes"]


@pytest.mark.long
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("target", [SM80, SM90])
def test_every_schedule_of_one_text(target, dim, causal):
    rows = 128 if target == SM90 and dim < 256 else 64
    program = attention.bind(queries=200, keys=333, dim=dim, causal=causal, tile_m=rows, tile_n=64 if dim < 256 else 32)
    by_rows = ROWS.threads(128)
    late = (("gemm S", "parallel total", "parallel S"), (0, 1, 0))
    schedules = [
        by_rows,
        by_rows.pipeline("k", 2),
        by_rows.pipeline("k", 2).order("k", *late),
        by_rows.pipeline("k", 2).overlap("k", "gemm S"),
        by_rows.pipeline("k", 2).swap_grid(),
        by_rows.pipeline("k", 2).persistent(3),
    ]
    if target == SM90:
        schedules += [hopper.attention(program), hopper.attention(program, order="values_first")]
    for schedule in schedules:
        checked(program, schedule, target, causal)
