"""What every check sees: the program's outline, its target, and each operation with what encloses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.errors import SourceSpan

from ..operations import GEMMS, Gemm, Operation, gemm_of
from ..outline import Outline
from ..program import Program
from ..target import Target
from ..tree import BufferInfo, Entry, Grid


@dataclass(frozen=True)
class Placed:
    """An entry with the entries around it, outermost first."""

    entry: Entry
    around: tuple[Entry, ...]

    @property
    def span(self) -> SourceSpan | None:
        """Where the entry stands."""
        return self.entry.span

    @property
    def conditional(self) -> bool:
        """Whether only some threads may reach the entry."""
        return any(outer.kind == "if" or outer.label.startswith("warp_specialize") for outer in self.around)


@dataclass(frozen=True)
class Launch:
    """One grid of a program, for the checks: its entries in program order."""

    program: Program
    target: Target
    grid: Entry
    pass_configs: Mapping[str, object]

    @property
    def detail(self) -> Grid:
        """Axes, threads and annotations."""
        assert isinstance(self.grid.detail, Grid)
        return self.grid.detail

    @property
    def threads(self) -> int | None:
        """Threads per block, None when symbolic."""
        return self.detail.thread_count

    def placed(self) -> Iterator[Placed]:
        """Every entry below the grid, in program order."""
        yield from _placed(self.grid.children, (self.grid,))

    def operations(self, *names: str) -> Iterator[tuple[Placed, Operation]]:
        """Tile operations (of these names), in program order."""
        for placed in self.placed():
            detail = placed.entry.detail
            if isinstance(detail, Operation) and (not names or detail.name in names):
                yield placed, detail

    def gemms(self) -> Iterator[tuple[Placed, Gemm]]:
        """Matrix products on fragments, in program order; those on tensor memory are left out."""
        for placed, operation in self.operations(*GEMMS):
            gemm = gemm_of(operation)
            if gemm.c.scope != "shared.tmem":
                yield placed, gemm

    def buffers(self, *scopes: str) -> Iterator[tuple[Entry, BufferInfo]]:
        """Allocations in these scopes."""
        for placed in self.placed():
            info = placed.entry.detail
            if isinstance(info, BufferInfo) and info.scope in scopes:
                yield placed.entry, info


def _placed(entries: tuple[Entry, ...], around: tuple[Entry, ...]) -> Iterator[Placed]:
    for entry in entries:
        yield Placed(entry, around)
        yield from _placed(entry.children, (*around, entry))


def launches(program: Program, target: Target, pass_configs: Mapping[str, object]) -> list[Launch]:
    """The grids of a program."""
    outline: Outline = program.outline()
    return [Launch(program, target, grid, pass_configs) for grid in outline.grids]
