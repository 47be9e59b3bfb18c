"""The package list matches the disk, and what is shipped holds all that it needs to be built."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def settings(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text())


def test_every_package_on_the_disk_is_listed(root: Path, files: list[Path], settings: dict[str, Any]) -> None:
    on_disk = set()
    for path in files:
        if path.name == "__init__.py" and path.parts[0] not in ("tests", "examples"):
            parts = path.parent.parts
            on_disk.add(".".join(parts if parts[0] == "tilewright" else ("tilewright", *parts)))
    listed = settings["tool"]["setuptools"]["packages"]
    assert listed == sorted(on_disk)


def test_every_top_folder_is_mapped_and_typed(root: Path, settings: dict[str, Any]) -> None:
    tops = {p.split(".")[1] for p in settings["tool"]["setuptools"]["packages"] if "." in p}
    assert settings["tool"]["setuptools"]["package-dir"] == {f"tilewright.{top}": top for top in sorted(tops)}
    assert [top for top in sorted(tops) if not (root / top / "py.typed").exists()] == []


def test_the_makefile_links_every_top_folder(root: Path, settings: dict[str, Any]) -> None:
    tops = {p.split(".")[1] for p in settings["tool"]["setuptools"]["packages"] if "." in p}
    line = next(line for line in (root / "Makefile").read_text().splitlines() if line.startswith("FOLDERS"))
    assert set(line.split(":=")[1].split()) == tops


def test_pins_agree(root: Path, settings: dict[str, Any]) -> None:
    """What pyproject pins exactly, constraints pin to the same version; every other dependency is constrained."""
    pinned = {}
    for line in (root / "constraints.txt").read_text().splitlines():
        if "==" in line:
            name, version = line.split("==")
            pinned[name.lower()] = version
    project = settings["project"]
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        name = requirement.split("=")[0].rstrip("><").lower()
        assert name in pinned, requirement
        if "==" in requirement and "*" not in requirement:
            assert pinned[name] == requirement.split("==")[1], requirement
    compiler = ("nvcc", "nvrtc", "crt", "runtime", "cccl")
    assert {pinned[f"nvidia-cuda-{part}"].rsplit(".", 1)[0] for part in compiler} == {"13.0"}


def test_the_source_archive_can_build_the_engine(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "source"
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "demo-output", "*_cache", "*.egg-info", "*.so", "tests")
    shutil.copytree(root, copy, ignore=ignored)
    command = "from setuptools.build_meta import build_sdist; print(build_sdist('out'))"
    subprocess.run([sys.executable, "-W", "ignore", "-c", command], cwd=copy, check=True, capture_output=True)
    with tarfile.open(next((copy / "out").glob("*.tar.gz"))) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    sources = {str(p.relative_to(root)) for p in (root / "vgpu" / "engine").rglob("*") if p.suffix in (".cpp", ".h")}
    assert sources
    assert sources <= held
    assert {"LICENSE", "setup.py", "constraints.txt", "dsl/__init__.py", "tilewright/errors.py"} <= held
