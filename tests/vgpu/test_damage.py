"""Damaged PTX texts and launch plans end in a report or in one error of the catalogue."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright import vgpu

PATH = Path(__file__).with_name("damage.py")
CASES = 300
BATCHES = 3


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_texts_and_launches_end_in_an_error_or_a_report(batch):
    """In a process of their own, so that a crash fails the test and not the run."""
    count = CASES // BATCHES
    command = [sys.executable, str(PATH), "--batch", "--first", str(batch * count), "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    lines = done.stdout.splitlines()
    outcomes = json.loads(lines[-1].removeprefix("OUTCOMES "))
    assert lines[:-1] == []
    assert sum(outcomes.values()) == count
    assert {"PtxSyntaxError", "UnsupportedInstruction", "LaunchError", "ok"} <= set(outcomes)


def test_the_subjects_run_undamaged():
    spec = importlib.util.spec_from_file_location("damage_under_test", PATH)
    damage = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = damage
    spec.loader.exec_module(damage)
    for subject in damage.load_subjects(PATH.with_name("damage_subjects.jsonl")):
        args = [damage.make_argument(a) for a in subject.args]
        report = vgpu.launch(
            subject.ptx, subject.entry, subject.grid, subject.block, args, dynamic_smem=subject.dynamic_smem,
            cluster=subject.cluster, target=subject.target, threads=1, budget=damage.BUDGET,
        )  # fmt: skip
        assert report.counts["instructions"] >= 0
