"""``import tilewright`` is light, and every public name resolves."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import tilewright


@pytest.mark.parametrize("module", ["tilewright", "tilewright.vgpu", "tilewright.cli.main", "tilewright.knobs"])
def test_importing_loads_neither_torch_nor_tilelang(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'torch', 'tilelang', 'tvm', 'tvm_ffi'}} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_resolves() -> None:
    assert sorted(tilewright.__all__) == dir(tilewright)
    for name in tilewright.__all__:
        assert getattr(tilewright, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tilewright' has no attribute 'kernal'"):
        tilewright.__getattr__("kernal")


def test_the_command_line_is_a_module() -> None:
    assert importlib.util.find_spec("tilewright.__main__") is not None
