"""The documents are true: tables match the code, named files exist, the README's example prints what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright import knobs
from tilewright.cli import choice_of, subject_of
from tilewright.cli.main import COMMANDS

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/layout.md", "docs/knobs.md", "docs/sanitizers.md"]
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*)`")
_LINK = re.compile(r"\]\(([^)#:]+)\)")
# written by a command, so absent from a fresh clone
MADE = ("demo-output/", "build/")


def table(text: str) -> list[str]:
    return [line.replace("``", "`").strip() for line in text.splitlines() if line.startswith("|")]


def test_the_knobs_are_documented(root: Path) -> None:
    assert table((root / "docs/knobs.md").read_text()) == table(knobs.__doc__ or "")
    rows = [re.match(r"\| `(\w+)`", line) for line in table(knobs.__doc__ or "")]
    assert [row.group(1) for row in rows if row] == [knob.name for knob in knobs.ALL]


def documents(root: Path) -> list[Path]:
    return [*(root / name for name in DOCUMENTS), *sorted((root / "docs/decisions").glob("*.md"))]


def exists(root: Path, name: str) -> bool:
    """From the root, or from a top folder (``commands/`` of ``cli/``)."""
    return (root / name).exists() or any((top / name).exists() for top in root.iterdir() if top.is_dir())


def test_every_path_named_in_a_document_exists(root: Path) -> None:
    missing = []
    for document in documents(root):
        text = document.read_text()
        named = [match for match in _PATH.findall(text) if not match.startswith(MADE)]
        missing += [f"{document.name}: {name}" for name in named if not exists(root, name)]
        links = [link for link in _LINK.findall(text) if "//" not in link]
        missing += [f"{document.name}: {link}" for link in links if not (document.parent / link).exists()]
    assert missing == []


def test_every_decision_has_the_next_number(root: Path) -> None:
    numbers = [int(path.name[:4]) for path in sorted((root / "docs/decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_readme_names_every_command(root: Path) -> None:
    text = (root / "README.md").read_text()
    assert [command.name for command in COMMANDS if f"tilewright {command.name}" not in text] == []


def test_the_example_of_the_readme_prints_what_it_shows(root: Path, tmp_path: Path) -> None:
    text = (root / "README.md").read_text()
    match = re.search(r"```python\n(.*?)```\n+[^`]*```text\n(.*?)```", text, re.S)
    assert match
    example = tmp_path / "example.py"
    example.write_text(match.group(1))
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == match.group(2)


def test_the_outline_of_the_readme_is_the_one_printed(root: Path) -> None:
    subject = subject_of(f"{root / 'examples' / 'softmax.py'}:softmax")
    program, _ = subject.program({}, choice_of("sm_90a", None))
    assert f"```text\n{program.outline()}\n```" in (root / "README.md").read_text()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_lines_are_short_enough_to_read(root: Path, name: str) -> None:
    inside, long = False, []
    for line in (root / name).read_text().splitlines():
        inside ^= line.startswith("```")
        if len(line) > 120 and not inside and not line.startswith("|"):
            long.append(line)
    assert long == []
