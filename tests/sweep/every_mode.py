"""A pytest plugin: what tests launch on the virtual GPU also runs in every other mode, with race detection.

Each kernel text is checked at its first launch in each grid. Findings, and results that differ between modes, go to the
file that ``TILEWRIGHT_SWEEP`` names, one JSON object a line; the last line counts what was checked. Launches with more
than 64 MB of tensors are left out: the tests of large sizes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tilewright import vgpu
from tilewright.runtime.check import CHECKS, result_differences
from tilewright.runtime.devices import vgpu as device

_launch = vgpu.launch
_LARGEST = 1 << 26
_seen: set[tuple[Any, ...]] = set()
_kernels: set[str] = set()
_found: list[dict[str, Any]] = []


def tensors_of(arguments: list[Any]) -> list[torch.Tensor]:
    """What a launch may change; two tensors of one memory count once."""
    tensors = [a.tensor if isinstance(a, vgpu.TensorMap) else a for a in arguments]
    found = {t.untyped_storage().data_ptr(): t for t in tensors if isinstance(t, torch.Tensor)}
    return [torch.empty(0, dtype=torch.uint8).set_(t.untyped_storage()) for t in found.values()]


def typed(arguments: list[Any]) -> list[torch.Tensor]:
    """Copies of the results, as their own types."""
    return [a.clone() for a in arguments if isinstance(a, torch.Tensor)] + [
        a.tensor.clone() for a in arguments if isinstance(a, vgpu.TensorMap)
    ]


def restore(memory: list[torch.Tensor], before: list[torch.Tensor]) -> None:
    for here, old in zip(memory, before, strict=True):
        here.copy_(old)


def modes(ptx: Any, entry: str, grid: Any, block: Any, arguments: list[Any], options: dict[str, Any]) -> Iterator[str]:
    """What is wrong in some mode; the memory is left as it was."""
    memory = tensors_of(arguments)
    before = [m.clone() for m in memory]
    if _launch(ptx, entry, grid, block, arguments, **options).findings:
        return restore(memory, before)  # a fault that the test is about
    restore(memory, before)
    first: list[torch.Tensor] | None = None
    for mode in vgpu.MODES:
        report = _launch(ptx, entry, grid, block, arguments, **{**options, "mode": mode, "checks": CHECKS})
        yield from (f"{mode}: {finding}" for finding in report.findings)
        results = typed(arguments)
        first = results if first is None else first
        yield from (f"{mode}: {text}" for text in result_differences(first, results))
        restore(memory, before)


def launch(ptx: Any, entry: str, grid: Any, block: Any, arguments: list[Any], **options: Any) -> vgpu.Report:
    """``vgpu.launch``, with the check in front of the first launch of a kind."""
    key = (ptx.text, entry, grid, options.get("target"))
    plain = options.get("mode") == "eager" and not options.get("checks") and not options.get("memory")
    small = sum(m.numel() for m in tensors_of(arguments)) <= _LARGEST
    if plain and small and key not in _seen:
        _seen.add(key)
        _kernels.add(ptx.text)
        for text in modes(ptx, entry, grid, block, arguments, options):
            _found.append({"test": os.environ.get("PYTEST_CURRENT_TEST", ""), "text": text})
    return _launch(ptx, entry, grid, block, arguments, **options)


def pytest_configure(config: pytest.Config) -> None:
    device.vgpu = SimpleNamespace(**{**{name: getattr(vgpu, name) for name in vgpu.__all__}, "launch": launch})


def pytest_unconfigure(config: pytest.Config) -> None:
    lines = [*_found, {"launches": len(_seen), "kernels": len(_kernels)}]
    Path(os.environ["TILEWRIGHT_SWEEP"]).write_text("\n".join(map(json.dumps, lines)))
