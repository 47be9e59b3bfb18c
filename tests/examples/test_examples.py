"""Every example runs as a script, and is within the tolerance as a subject of ``tilewright run``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tilewright.cli import choice_of, subject_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KERNELS = {"softmax": {"m": 61, "n": 515}, "rms_norm": {"m": 61, "n": 512}, "gemm_relu": {"m": 96, "n": 80, "k": 72}}


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*KERNELS, "demo"}


@pytest.mark.parametrize("name", KERNELS)
def test_as_a_script(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    error = float(capsys.readouterr().out.split("largest error")[1])
    assert error < {"softmax": 1e-4, "rms_norm": 4e-3, "gemm_relu": 3e-2}[name]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", KERNELS)
def test_within_the_tolerance(name: str, dtype: str, target: str) -> None:
    subject = subject_of(f"{EXAMPLES / name}.py:{name}")
    trial = subject.trial({**KERNELS[name], "dtype": dtype}, choice_of(target, None))
    assert trial.passed, trial.to_dict()


def test_the_demo_prints_a_row_for_each_kernel_and_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    monkeypatch.setitem(demo["demo"].__globals__, "OUTPUT", tmp_path)
    with pytest.raises(SystemExit) as exit_:
        demo["finish"](demo["demo"], as_json=False)
    out = capfd.readouterr().out
    assert exit_.value.code == 0, out
    assert out.splitlines()[-1] == "all rows within tolerance"
    for name in ("gemm", "softmax", "rms_norm"):
        for target in ("sm_80", "sm_90a"):
            for suffix in ("cu", "ptx", "sass"):
                assert (tmp_path / f"{name}.{target}.{suffix}").stat().st_size > 0
