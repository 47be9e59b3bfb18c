"""``use`` and ``stats``."""

from __future__ import annotations

import threading

import pytest

from tilewright.dsl import Target
from tilewright.runtime import current_schedule, current_target, stats, use
from tilewright.runtime.context import Counters, target_token
from tilewright.schedules import Schedule


@pytest.fixture(autouse=True)
def knob(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_TARGET", "sm_89")


def test_nesting():
    schedule = Schedule()
    assert (current_target().name, current_schedule()) == ("sm_89", None)
    with use(target="sm_80", schedule=schedule):
        with use(target=Target("sm_90a")):
            assert (current_target().name, current_schedule()) == ("sm_90a", schedule)
        assert current_target().name == "sm_80"
    assert (current_target().name, current_schedule()) == ("sm_89", None)


def test_left_after_an_error():
    with pytest.raises(KeyError), use(target="sm_80"):
        raise KeyError
    assert current_target().name == "sm_89"


def test_other_threads_are_not_touched():
    seen = []
    with use(target="sm_80"):
        thread = threading.Thread(target=lambda: seen.append(current_target().name))
        thread.start()
        thread.join()
    assert seen == ["sm_89"]


def test_unknown_target():
    with pytest.raises(Exception, match="unknown target 'sm90'"), use(target="sm90"):
        pass


def test_token_follows_the_target(monkeypatch):
    tokens = {target_token()}
    monkeypatch.setenv("TILEWRIGHT_TARGET", "sm_80")
    tokens.add(target_token())
    with use(target="sm_90a"):
        tokens.add(target_token())
    assert len(tokens) == 3


def test_counters_lose_nothing_between_threads():
    counters = Counters()
    threads = [threading.Thread(target=lambda: [counters.add("n") for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.read() == {"n": 8000}


def test_stats_names_every_count():
    assert {"kernels", "launches", "traced_calls", "jit_hits", "jit_misses"} <= stats().keys()
