"""``tilewright check`` finds nothing in the operators, the examples and the kernels of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tilewright.cli import choice_of, subject_of
from tilewright.ops import OPERATORS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TARGETS = ("sm_80", "sm_89", "sm_90a")
SMALL = {"softmax": {"m": 9, "n": 515}, "rms_norm": {"m": 9, "n": 512}, "gemm_relu": {"m": 96, "n": 80, "k": 136}}
# what tests launch by themselves on purpose with races or faults; nothing else is left out
BROKEN = ("test_check.py", "test_commands.py")


def assert_nothing_found(name: str, settings: dict[str, object], target: str) -> None:
    report = subject_of(name).check(settings, choice_of(target, None))
    assert report.ok, str(report)
    assert len(report.runs) == 6


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", SMALL)
def test_examples(name: str, target: str) -> None:
    assert_nothing_found(f"{EXAMPLES / name}.py:{name}", SMALL[name], target)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", OPERATORS)
def test_the_first_sample_of_operators(name: str, target: str) -> None:
    assert_nothing_found(name, dict(OPERATORS[name].samples[0]), target)


def test_every_example_is_checked() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SMALL, "demo"}


def launches(sample: Mapping[str, object]) -> bool:
    """Whether it has work for a kernel: no extent of zero."""
    return not any(type(value) is int and value == 0 for value in sample.values())


SAMPLES = [
    pytest.param(name, number, target, id=f"{name}-{number}-{target}")
    for name, operator in OPERATORS.items()
    for number, sample in enumerate(operator.samples)
    for target in TARGETS
    if target in operator.targets(operator.values(sample)) and launches(sample)
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "number", "target"), SAMPLES)
def test_every_sample_of_operators(name: str, number: int, target: str) -> None:
    assert_nothing_found(name, dict(OPERATORS[name].samples[number]), target)


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SMALL)
def test_examples_in_every_type(name: str, dtype: str, target: str) -> None:
    assert_nothing_found(f"{EXAMPLES / name}.py:{name}", {**SMALL[name], "dtype": dtype}, target)


@pytest.mark.long
@pytest.mark.parametrize("folder", ["ops", "examples", "runtime"])
def test_what_the_tests_launch(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    path = f"{Path(__file__).parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "every_mode", str(ROOT / "tests" / folder)]
    environment = {**os.environ, "PYTHONPATH": path, "TILEWRIGHT_SWEEP": str(file)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:]
    *found, counts = map(json.loads, file.read_text().splitlines())
    alarms = [f"{one['test']}: {one['text']}" for one in found if not any(b in one["test"] for b in BROKEN)]
    assert not alarms, "\n".join(alarms)
    assert counts["kernels"] > 0, counts
