"""Rows, medians taken in turns, and measuring processes."""

from __future__ import annotations

import os

import pytest

from tilewright.benchmarks import Row, benchmarks
from tilewright.benchmarks.comparison import MeasurementFailed, child, interleaved


def test_sides_take_turns_and_the_median_counts() -> None:
    order: list[str] = []
    values = {"a": iter([5.0, 1.0, 2.0]), "b": iter([7.0, 9.0, 8.0])}

    def side(name: str) -> float:
        order.append(name)
        return next(values[name])

    found = interleaved(3, {"a": lambda: side("a"), "b": lambda: side("b")})
    assert order == ["a", "b"] * 3
    assert found == {"a": 2.0, "b": 8.0}


@pytest.mark.parametrize(
    ("goal", "limit", "met"),
    [(None, None, True), (4, None, True), (5, None, False), (4, 2.0, True), (None, 1.9, False)],
)
def test_a_row_meets_its_aims(goal: float | None, limit: float | None, met: bool) -> None:
    row = Row("call", 2.0, 8.0, "peer", "us", goal, limit)
    assert row.ratio == 4
    assert row.met is met
    assert row.to_dict()["ratio"] == 4
    assert row.to_dict()["met"] is met


def test_a_child_has_its_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TEST_A", "1")
    monkeypatch.setenv("TILEWRIGHT_TEST_B", "2")
    code = "import os, json; print('noise'); print(json.dumps([os.environ.get('TILEWRIGHT_TEST_' + x) for x in 'ABC']))"
    assert child(["-c", code], {"TILEWRIGHT_TEST_A": None, "TILEWRIGHT_TEST_C": "3"}) == [None, "2", "3"]
    assert os.environ["TILEWRIGHT_TEST_A"] == "1"


def test_a_child_that_fails_is_an_error() -> None:
    with pytest.raises(MeasurementFailed, match=r"failed with status 3: -c .*\n.*stderr = broken"):
        child(["-c", "import sys; sys.stderr.write('broken'); sys.exit(3)"])


def test_the_registry_holds_every_benchmark_under_its_name() -> None:
    assert list(benchmarks) == ["import", "call", "compile", "lower", "vgpu"]
    assert all(name == one.name and one.question.endswith("?") for name, one in benchmarks.items())
