"""What the engine hands back, with the lines of PTX and source that it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .hot import HotLine, hot_lines
from .ptx import Kernel, Module, SourceLine, source_chain, source_chains
from .report import KINDS, Finding, Site


@dataclass(frozen=True)
class Grid:
    """A grid that was launched; ``request`` is what the engine takes."""

    module: Module
    kernel: Kernel
    entry: str
    block: list[int]
    device: int
    request: tuple[Any, ...]

    def text(self, line: int) -> str:
        """A PTX line, its white space squeezed."""
        return " ".join(_lines(self.module.text)[line - 1].split()) if line else ""

    def sources(self, line: int) -> tuple[SourceLine, ...]:
        """The source line behind a PTX line and its inlining callers."""
        return source_chain(self.kernel.function_at(line), self.module.files, line) if line else ()

    def thread(self, warp: int, lane: int) -> tuple[int, int, int]:
        """Indices of a thread in its block."""
        flat = 32 * warp + lane
        x, y = self.block[0], self.block[1]
        return (flat % x, flat // x % y, flat // x // y)


@lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def finding(grids: Sequence[Grid], raw: tuple[Any, ...]) -> Finding:
    """A finding of the engine."""
    kind, message, where, warp, lane, line, count, other, index = raw
    grid = grids[index]
    thread = grid.thread(warp, lane) if warp >= 0 and lane >= 0 else None
    site = None if other is None else _site(grids, *other)
    return Finding(
        KINDS[kind], message, grid.entry, where, thread, warp, lane, line, grid.text(line), grid.sources(line), count,
        site, grid.device,
    )  # fmt: skip


def _site(grids: Sequence[Grid], where: tuple[int, int, int], warp: int, lane: int, line: int, index: int) -> Site:
    grid = grids[index]
    return Site(
        where, grid.thread(warp, lane), warp, lane, line, grid.text(line), grid.sources(line), grid.device, grid.entry
    )


def hot(grids: Sequence[Grid], rows: Sequence[Sequence[Any]]) -> tuple[HotLine, ...]:
    """Counters by PTX line: of one kernel those of all its grids together."""
    out: list[HotLine] = []
    merged: dict[tuple[int, str], tuple[Grid, list[Any]]] = {}
    for grid, some in zip(grids, rows, strict=True):
        merged.setdefault((id(grid.module), grid.entry), (grid, []))[1].extend(some)
    for grid, some in merged.values():
        out += hot_lines(some, _lines(grid.module.text), _line_sources(grid, [r[0] for r in some]))
    return tuple(sorted(out, key=lambda h: (-h.runs, h.ptx_line)))


def _line_sources(grid: Grid, lines: Sequence[int]) -> dict[int, tuple[SourceLine, ...]]:
    of: dict[str, list[int]] = {}
    functions = {f.name: f for f in grid.kernel.functions}
    for line in lines:
        of.setdefault(grid.kernel.function_at(line).name, []).append(line)
    files = grid.module.files
    return {k: v for name, some in of.items() for k, v in source_chains(functions[name], files, some).items()}
