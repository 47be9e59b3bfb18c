"""Dependences of a loop body; order, overlap and unroll: what they refuse, and what their kernels compute."""

import itertools
import json
import random

import pytest
import torch
from attention_program import attention, reference, tensors
from schedule_programs import gemm

import tilewright as tw
from tilewright.dsl import Target
from tilewright.lowering import lower
from tilewright.schedules import Schedule, ScheduleNotApplied
from tilewright.schedules.dependence import (
    Statement,
    Tile,
    broken,
    dependences_of,
    needed_by,
    ordered,
    private_tiles,
    statements_of,
)
from tilewright.schedules.errors import IllegalStep, IllegalValue, UnknownHandle

SM80, SM90 = Target("sm_80"), Target("sm_90a")
FULL = Schedule().threads(128).partition("gemm S", "full_row").partition("gemm total", "full_row")
LATE_PV = (("gemm S", "parallel total", "parallel S"), (0, 1, 0))  # QK(i+1), rescale(i), PV(i), softmax(i+1)


@pytest.fixture(scope="module")
def body():
    program = Schedule().apply(attention.bind(), SM80)
    return statements_of(program.outline().find("k", "loop"))


def test_accesses_of_attention(body):
    seen = {
        statement.label: (
            {tile.name for tile in statement.reads},
            {tile.name for tile in statement.writes},
            {tile.name for tile in statement.covers},
        )
        for statement in body
    }
    assert seen["gemm S"] == ({"q", "kt"}, {"S"}, {"S"})
    assert seen["parallel S"] == ({"S"}, {"S"}, set())
    assert seen["reduce_max S"] == ({"S", "top"}, {"top"}, set())
    assert seen["parallel shrink"] == ({"before", "top"}, {"shrink"}, {"shrink"})
    assert seen["gemm total"] == ({"P", "vt", "total"}, {"total"}, set())
    assert [statement.label for statement in body if statement.loads] == ["copy K->kt", "copy V->vt"]
    private = {tile.name for tile in private_tiles(body)}
    assert private == {"kt", "vt", "S", "P", "before", "shrink", "part"}
    assert needed_by(body, "gemm S") == {"copy K->kt", "gemm S"}
    assert "reduce_max S" in needed_by(body, "copy S->P")


class _Entry:
    span = None

    def __init__(self, label):
        self.label = label


def _statement(label, reads, writes, covers):
    return Statement(_Entry(label), frozenset(reads), frozenset(writes), frozenset(covers), False)


def _run(steps, slots, private):
    """Final contents of all tiles; contents are nested tuples of what was read."""
    memory = {}
    for iteration, statement in steps:
        place = {tile: iteration % slots if tile in private else 0 for tile in statement.touches}
        value = (
            statement.label,
            iteration,
            tuple(memory.get((tile, place[tile])) for tile in sorted(statement.reads, key=lambda tile: tile.name)),
        )
        for tile in statement.writes:
            old = None if tile in statement.covers else memory.get((tile, place[tile]))
            memory[tile, place[tile]] = hash((value, old, tile.name))
    return {key: value for key, value in memory.items() if key[0] not in private}


def test_an_order_without_broken_dependences_computes_the_same():
    draw = random.Random(7)
    tiles = [Tile(number, f"t{number}", "shared.dyn") for number in range(4)]
    legal = 0
    for _ in range(3000):
        body = []
        for number in range(draw.randint(2, 4)):
            writes = draw.sample(tiles, draw.randint(1, 2))
            reads = draw.sample(tiles, draw.randint(0, 2))
            covers = [tile for tile in writes if tile not in reads and draw.random() < 0.8]
            body.append(_statement(f"s{number}", reads, writes, covers))
        slots = draw.randint(1, 3)
        stages = {statement.label: draw.randint(0, 2) for statement in body}
        labels = draw.sample([statement.label for statement in body], len(body))
        order = {label: place for place, label in enumerate(labels)}
        private = private_tiles(body)
        edges = dependences_of(body, lambda tile, slots=slots: slots)
        trips = 5
        plain = [(i, statement) for i in range(trips) for statement in body]
        skewed = sorted(plain, key=lambda step: (step[0] + stages[step[1].label], order[step[1].label]))
        if not broken(edges, order, stages):
            legal += 1
            assert _run(skewed, slots, private) == _run(plain, slots, private)
        found = ordered(edges, labels, stages)
        if found:
            assert not broken(edges, {label: place for place, label in enumerate(found)}, stages)
        else:
            assert all(
                broken(edges, {label: place for place, label in enumerate(other)}, stages)
                for other in itertools.permutations(labels)
            )
    assert legal > 100


def test_steps_survive_json():
    schedule = Schedule().order("k", *LATE_PV).overlap("k", "gemm S", 2).unroll("k", 4)
    assert Schedule.from_json(schedule.to_json()) == schedule
    wrong = json.loads(schedule.to_json())
    wrong["steps"][0]["stages"] = ["0"]
    with pytest.raises(tw.errors.TilewrightError, match=r"option 'stages' must be tuple\[int, ...\]"):
        Schedule.from_json(json.dumps(wrong))


@pytest.mark.parametrize(
    ("schedule", "error", "message"),
    [
        (Schedule().order("k", ("gemm X",)), UnknownHandle, "'gemm X' names 0 statements of loop 'k'"),
        (Schedule().order("k", ("gemm",)), UnknownHandle, "'gemm' names 2 statements"),
        (Schedule().order("z", ("gemm S",)), UnknownHandle, "nothing in attention is called 'z'"),
        (Schedule().order("k", ("gemm S", "gemm S")), IllegalValue, "must be listed once each"),
        (Schedule().order("k", ()), IllegalValue, "must be listed once each"),
        (Schedule().order("k", ("gemm S",), (0, 1)), IllegalValue, "one whole number from 0 to 8 for each"),
        (Schedule().order("k", ("gemm S",), (9,)), IllegalValue, "one whole number from 0 to 8 for each"),
        (Schedule().order("parallel S", ("gemm S",)), IllegalStep, "only statements of a serial loop"),
        (
            Schedule().order("k", ("parallel S", "gemm S")),
            IllegalStep,
            "'parallel S' reads S, which 'gemm S' writes in the same iteration, but would run before it",
        ),
        (
            Schedule().order("k", ("gemm S", "parallel S"), (0, 1)),
            IllegalStep,
            "overwrites S, which '.*' (still reads|writes) in an earlier iteration",
        ),
        (Schedule().overlap("k", "gemm S", 0), IllegalValue, "by must be a whole number from 1 to 8"),
        (
            Schedule().overlap("k", "gemm S", 2),
            IllegalStep,
            "'gemm S' cannot run 2 iterations ahead: 'gemm S' overwrites S",
        ),
        (Schedule().order("k", *LATE_PV).pipeline("k", 3), IllegalStep, "have an order already"),
        (Schedule().pipeline("k", 3).unroll("k"), IllegalStep, "loop 'k' is pipelined, only a plain serial loop"),
        (Schedule().order("k", *LATE_PV).unroll("k"), IllegalStep, "loop 'k' is ordered"),
        (Schedule().unroll("k", 65), IllegalValue, "factor must be a whole number from 0 to 64"),
    ],
)
def test_refusals_name_handle_and_line(schedule, error, message):
    with pytest.raises(error, match=message) as caught:
        schedule.apply(attention.bind(), SM80)
    if error is IllegalStep:
        assert "attention_program.py:" in str(caught.value)


def test_a_loop_shorter_than_its_stages_is_refused():
    with pytest.raises(IllegalStep, match="runs fewer times than its statements have stages") as caught:
        FULL.order("k", *LATE_PV).apply(attention.bind(keys=64), SM80)
    assert "trips = 1, stages = 3" in str(caught.value)


def test_overlap_leaves_something_behind():
    with pytest.raises(IllegalStep, match="nothing of loop 'ko' is left to run behind 'gemm c'"):
        Schedule().overlap("ko", "gemm").apply(gemm.bind(), SM80)


@pytest.mark.parametrize("target", [SM80, SM90])
@pytest.mark.parametrize(
    "schedule",
    [
        FULL.pipeline("k", 2).order("k", *LATE_PV),
        FULL.pipeline("k", 2).overlap("k", "gemm S"),
        FULL.order("k", ("copy V->vt", "copy K->kt", "gemm S")),
    ],
    ids=["late_pv", "overlap", "loads"],
)
def test_skewed_attention_computes_the_same(schedule, target):
    for causal, queries, keys in ((False, 100, 250), (True, 130, 130)):  # causal: one block, fewer than stages
        program = attention.bind(queries=queries, keys=keys, causal=causal)
        kernel = tw.compile(program, schedule, target)
        q, k, v, out = tensors(program)
        kernel(q, k, v, out)
        assert (out.double() - reference(q, k, v, causal)).abs().max() < 2e-3
        report = tw.check(kernel, q, k, v, out)
        assert report.ok, str(report)


def test_unrolled_gemm():
    a, b = (torch.randn(shape, generator=torch.Generator().manual_seed(1)).half() for shape in ((64, 160), (160, 64)))
    for factor, pragma in ((0, "#pragma unroll\n"), (2, "#pragma unroll 2\n")):
        kernel = tw.compile(gemm.bind(m=64, n=64, k=160), Schedule().unroll("ko", factor), SM80)
        out = torch.zeros(64, 64, dtype=torch.float16)
        kernel(a, b, out)
        assert (out.double() - a.double() @ b.double()).abs().max() < 0.05
        assert pragma in kernel.cuda
    with pytest.raises(ScheduleNotApplied, match=r"unroll\('ko', 0\) was dropped"):
        Schedule().unroll("ko").verify(lower(gemm.bind(m=64, n=64, k=160), None, SM80))


def test_a_dropped_order_is_an_error():
    ordered_program = lower(attention.bind(), FULL.order("k", *LATE_PV), SM80)
    plain = lower(attention.bind(), FULL, SM80)
    step = Schedule().order("k", *LATE_PV)
    with pytest.raises(ScheduleNotApplied, match="the scheduled program notes no order"):
        step.verify(plain)

    class Mixed:
        target, cuda, program_text = SM80, plain.cuda, ordered_program.program_text

    with pytest.raises(ScheduleNotApplied, match="lines in the order"):
        step.verify(Mixed())
