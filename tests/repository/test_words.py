"""Nothing names the machine it was written on, and nothing is left half done."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = {".py", ".cpp", ".h", ".md", ".toml", ".txt", ".json", ""}
# written in two halves so that this file does not match itself
_FOREIGN = [("/ro", "ot/"), ("/ho", r"me/\w"), ("/Us", r"ers/\w"), ("/wo", "rk/")]
_HOSTS = [("pypi", r"\.org"), ("python", "hosted"), ("--index", "-url")]
_UNFINISHED = [("TO", "DO"), ("FIX", "ME"), ("XX", r"X\b"), ("NotImpl", "emented"), ("pytest.sk", "ip"), ("xf", "ail")]


def any_of(halves: list[tuple[str, str]]) -> re.Pattern[str]:
    return re.compile("|".join(first + second for first, second in halves))


def lines_with(root: Path, files: list[Path], pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in files:
        if path.suffix in TEXT and path.name != "LICENSE":
            for number, line in enumerate((root / path).read_text().splitlines(), 1):
                if pattern.search(line):
                    found.append(f"{path}:{number}: {line.strip()[:100]}")
    return found


def test_no_path_of_a_machine(root: Path, files: list[Path]) -> None:
    assert lines_with(root, files, any_of(_FOREIGN)) == []


def test_no_package_index(root: Path, files: list[Path]) -> None:
    assert lines_with(root, files, any_of(_HOSTS)) == []


def test_nothing_is_left_for_later(root: Path, files: list[Path]) -> None:
    assert lines_with(root, files, any_of(_UNFINISHED)) == []
