"""The PTX texts of ``ptx/`` and how Triton launches them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tilewright import vgpu

FOLDER = Path(__file__).parent / "ptx"
MODES = ("eager", "lazy", "skew-reverse", "random")


def targets(name: str) -> list[str]:
    """Architectures that a kernel was compiled for."""
    return sorted(path.name.split(".")[1] for path in FOLDER.glob(f"{name}.sm_*.ptx"))


def cases(*names: str) -> list[tuple[str, str]]:
    found = [(name, target) for name in names for target in targets(name)]
    assert len({name for name, _ in found}) == len(names)
    return found


def run(name: str, target: str, grid: Any, args: list[Any], mode: str = "eager", **options: Any) -> vgpu.Report:
    """Launches a kernel: Triton appends two scratch pointers, and the blocks of a cluster share a program."""
    ptx = (FOLDER / f"{name}.{target}.ptx").read_text()
    head = re.match(r"// triton [\d.]+: shared (\d+), scratch (\d+), ctas (\d+)\n", ptx)
    shared, scratch, ctas = (int(n) for n in head.groups())
    assert scratch == 0
    threads = int(re.search(r"\.reqntid (\d+)", ptx).group(1))
    grid = (grid,) if isinstance(grid, int) else tuple(grid)
    grid = (grid[0] * ctas, *grid[1:])
    entry = re.search(r"\.entry (\w+)", ptx).group(1)
    checks = ("race",) if mode != "eager" else ()
    options = {"mode": mode, "checks": checks, "threads": 1, "dynamic_smem": shared, **options}
    return vgpu.launch(ptx, entry, grid, threads, [*args, None, None], target=target, **options)


def clean(*request: Any, **options: Any) -> vgpu.Report:
    report = run(*request, **options)
    assert report.ok, str(report)
    return report
