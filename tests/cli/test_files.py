"""``path.py:factory`` and ``--schedule file.json``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli.errors import BadFile, UnknownName
from tilewright.cli.files import load_factory, load_module, load_schedule, reference_of

TEXT = """
import math

def scale(n=4):
    return n

def reference(x):
    return x

_hidden = 1
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "kernels.py"
    file.write_text(TEXT)
    return file


def test_a_factory_and_its_reference(path: Path) -> None:
    module = load_module(path)
    assert load_factory(module, path, "scale")(7) == 7
    assert reference_of(module)(3) == 3


def test_an_unknown_factory_lists_the_kernels(path: Path) -> None:
    with pytest.raises(UnknownName, match=r"'scales'\n.*did you mean 'scale'\? known: scale$"):
        load_factory(load_module(path), path, "scales")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"there is no file .*absent\.py"):
        load_module(tmp_path / "absent.py")


def test_a_file_that_raises_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("a = 1\nb = a / 0\n")
    with pytest.raises(BadFile, match=r"raised ZeroDivisionError: division by zero\n --> .*broken.py:2"):
        load_module(file)


def test_a_file_that_is_no_python_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("a = 1\ndef b(:\n")
    with pytest.raises(BadFile, match=r"raised SyntaxError: .*\n --> .*broken.py:2"):
        load_module(file)


def test_a_schedule_file_that_is_absent(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"--schedule .*absent.json cannot be read"):
        load_schedule(str(tmp_path / "absent.json"))


def test_a_schedule_file_that_is_no_json(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    file.write_text("{")
    with pytest.raises(BadFile, match=r"--schedule .*schedule.json cannot be read"):
        load_schedule(str(file))


def test_no_schedule_file() -> None:
    assert load_schedule(None) is None
