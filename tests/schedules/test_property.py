"""Random schedules: each is refused with a message, or takes hold and computes the right numbers in every mode.

They are lowered in a process of its own, so that a crash of the compiler is seen as one.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest
from drawn import LONG, drawn, generated, outcome
from hypothesis import HealthCheck, given, settings

from tilewright.schedules import Schedule

SECONDS = 300  # far more than any needs: what takes longer hangs


class Worker:
    """A process that lowers and runs schedules, replaced when one kills it."""

    def __init__(self):
        self.pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def outcome(self, *case):
        try:
            return self.pool.submit(outcome, *case).result(timeout=SECONDS)
        except BrokenProcessPool:
            self.pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
            return "the process died"


@pytest.fixture(scope="module")
def worker():
    made = Worker()
    yield made
    made.pool.shutdown()


def settle(worker, case):
    name, target, text = case
    found = worker.outcome(name, target, text)
    assert found == "right" or found.startswith("refused: "), f"{name} on {target}: {Schedule.from_json(text)}: {found}"


CHAINS = {
    "sm_80": Schedule().threads(128).pipeline("ko", 2).pad("a", 8).rasterize(2).stage("copy c->C").split_k("ko", 3),
    "sm_90a": Schedule().threads(128).pipeline("ko", 2).stage("copy c->C").swizzle("c_staged", 64).persistent(2),
}


@pytest.mark.parametrize("target", CHAINS)
def test_a_schedule_read_back_in_another_process_gives_the_same_code(worker, target):
    text = CHAINS[target].to_json()
    there = worker.pool.submit(generated, "gemm", target, text).result(timeout=SECONDS)
    assert there == generated("gemm", target, text)
    assert Schedule.from_json(text) == CHAINS[target]


COMMON = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@settings(max_examples=60, **COMMON)
@given(drawn())
def test_a_random_schedule_is_refused_or_right(worker, case):
    settle(worker, case)


@pytest.mark.long
@settings(max_examples=2000, **COMMON)
@given(drawn(LONG))
def test_two_thousand_random_schedules_are_refused_or_right(worker, case):
    settle(worker, case)
