"""Each kernel of ``examples/faults`` is reported by the default check with the lines marked in it; its fixed twin not.

The document shows the reports as they are printed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright import vgpu
from tilewright.cli import choice_of, subject_of
from tilewright.runtime import CheckReport

ROOT = Path(__file__).resolve().parents[2]
FAULTS = ROOT / "examples" / "faults"
DOCUMENT = ROOT / "docs" / "sanitizers.md"
# name -> (kind, marker of the line, marker of the other line)
KINDS = {
    "missing_sync": ("race", "fault", "other side"),
    "missing_wait": ("race", "fault", "other side"),
    "overwritten_slot": ("race", "fault", "other side"),
    "lost_arrive": ("deadlock", "fault", None),
    "wrong_bytes": ("deadlock", "fault", "other side"),
    "missing_proxy_fence": ("proxy-fence", "fault", "other side"),
    "out_of_bounds": ("out-of-bounds", "fault", None),
    "uninitialized_tile": ("uninitialized-shared", "fault", None),
    "divergent_barrier": ("barrier", "fault", None),
    "unordered_flag": ("race", "fault", "other side"),
}


def marked(name: str, marker: str) -> int:
    lines = (FAULTS / f"{name}.py").read_text().splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {marker}")]
    return number


def check(name: str, monkeypatch: pytest.MonkeyPatch, **settings: object) -> CheckReport:
    monkeypatch.setenv("TILEWRIGHT_VGPU_THREADS", "1")
    ranks = 2 if name == "unordered_flag" else None
    return subject_of(f"{FAULTS / name}.py:{name}").check(settings, choice_of("sm_90a", None), ranks)


def line_of(site: vgpu.Finding | vgpu.Site | None, name: str) -> int | None:
    if site is None or site.source is None:
        return None
    assert site.source.file == str(FAULTS / f"{name}.py")
    return site.source.line


def test_every_fault_is_tested() -> None:
    assert {path.stem for path in FAULTS.glob("*.py")} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_the_fault_is_reported_with_its_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, here, there = KINDS[name]
    report = check(name, monkeypatch)
    lines = [(line_of(f, name), line_of(f.other, name)) for f in report.findings if f.kind == kind]
    assert (marked(name, here), there and marked(name, there)) in lines, str(report)
    for finding in report.findings:
        if finding.ptx_line:
            assert finding.kernel == "main_kernel"
            assert finding.cuda_line > 0
            assert finding.other is None or finding.other.cuda_line > 0
    block = "\n".join(line for line in str(report).splitlines() if not line.startswith("mode "))
    assert comparable(block) in [comparable(text) for text in blocks()], block


@pytest.mark.parametrize("name", KINDS)
def test_the_fixed_twin_is_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = check(name, monkeypatch, fixed=True)
    assert report.ok, str(report)


def test_a_flag_of_device_scope_is_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    report = check("unordered_flag", monkeypatch, scope="gpu")
    flags = [f for f in report.findings if line_of(f, "unordered_flag") == marked("unordered_flag", "flag read")]
    assert [line_of(f.other, "unordered_flag") for f in flags] == [marked("unordered_flag", "flag written")]
    assert "scope .gpu of the write by st.global is too narrow: another device needs .sys" in flags[0].message
    assert flags[0].other is not None
    assert {flags[0].device, flags[0].other.device} == {0, 1}
    (data,) = [f for f in report.findings if line_of(f, "unordered_flag") == marked("unordered_flag", "fault")]
    assert "a flag was seen in between, but scope .gpu of its release" in data.message
    block = "\n".join(line for line in str(report).splitlines() if not line.startswith("mode "))
    assert comparable(block) in [comparable(text) for text in blocks()], block


def blocks() -> list[str]:
    return re.findall(r"```text\n(.*?)\n```", DOCUMENT.read_text(), re.DOTALL)


def comparable(text: str) -> str:
    """What does not depend on the machine, the compiler's numbering of lines, or addresses."""
    text = re.sub(r"/\S*/(?=examples/faults|tilelang/)", "", text)
    text = re.sub(r"(PTX|CUDA) line \d+", r"\1 line N", text)
    text = re.sub(r"(?<=line N: ).*", "...", text)
    text = re.sub(r"\.(h|hpp|cu):\d+", r".\1:N", text)
    return re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", text)
