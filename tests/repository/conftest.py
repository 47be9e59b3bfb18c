"""The files of the project, found on the disk, so that the gates also see what git does not know yet."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {".git", ".venv", "build", "dist", "demo-output", "__pycache__"}


def walk(root: Path) -> list[Path]:
    """Every file of the project, relative to ``root``, without caches, builds and environments."""
    found: list[Path] = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(
            n for n in names if n not in OUTSIDE and not n.endswith(("_cache", ".egg-info", ".hypothesis"))
        )
        found.extend((Path(folder) / name).relative_to(root) for name in sorted(files))
    return found


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def files() -> list[Path]:
    return walk(ROOT)


@pytest.fixture(scope="session")
def trees(files: list[Path]) -> dict[Path, ast.Module]:
    """The syntax tree of every Python file."""
    return {path: ast.parse((ROOT / path).read_text(), str(path)) for path in files if path.suffix == ".py"}
