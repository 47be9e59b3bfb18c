"""The outline of a program: its grid, buffers, loops and tile operations by stable names."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import AmbiguousLabel, UnknownLabel
from .tree import Entry, entries_of

if TYPE_CHECKING:
    from .program import Program

_SHOWN = 12
_COLUMN = 88


@dataclass(frozen=True, eq=False)
class Outline:
    """The named tree of a program; ``str`` prints it, with the source line of each entry at the right."""

    header: str
    entries: tuple[Entry, ...]

    def walk(self) -> Iterator[Entry]:
        """All entries in program order."""
        for entry in self.entries:
            yield from entry.walk()

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label, in program order."""
        return tuple(entry.label for entry in self.walk())

    def of_kind(self, *kinds: str) -> tuple[Entry, ...]:
        """The entries of these kinds, in program order."""
        return tuple(entry for entry in self.walk() if entry.kind in kinds)

    @property
    def grids(self) -> tuple[Entry, ...]:
        """The launches."""
        return self.of_kind("grid")

    @property
    def buffers(self) -> tuple[Entry, ...]:
        """The allocations."""
        return self.of_kind("buffer")

    @property
    def loops(self) -> tuple[Entry, ...]:
        """The loops, parallel ones included."""
        return self.of_kind("loop")

    @property
    def ops(self) -> tuple[Entry, ...]:
        """The tile operations."""
        return self.of_kind("op")

    def find(self, label: str, *kinds: str) -> Entry:
        """The entry with this label, or the only one that has it among its other names (operation, variable, buffer).

        Args:
            label: ``copy A->A_s``, ``gemm S#2``, ``k``, ``A_s``; a part such as ``gemm`` when only one entry has it.
            kinds: search only these kinds.

        Raises:
            UnknownLabel: nothing has this name; the message lists the closest labels.
            AmbiguousLabel: several entries have it; the message lists them.
        """
        entries = self.of_kind(*kinds) if kinds else tuple(self.walk())
        for found in (
            [entry for entry in entries if entry.label == label],
            [entry for entry in entries if label in entry.names],
        ):
            if len(found) == 1:
                return found[0]
            if found:
                raise AmbiguousLabel(
                    f"{label!r} names {len(found)} things in {self.header.partition('(')[0]}",
                    span=found[0].span,
                    remedy=f"use one of {_listing([f'{entry.label} ({entry.kind})' for entry in found])}",
                )
        raise self._unknown(label, [entry.label for entry in entries])

    def _unknown(self, label: str, labels: list[str]) -> UnknownLabel:
        close = difflib.get_close_matches(label, labels, n=3, cutoff=0.5)
        known = f"labels are {_listing(labels)}" if labels else "there is nothing of that kind"
        return UnknownLabel(
            f"nothing in {self.header.partition('(')[0]} is called {label!r}",
            remedy=(f"did you mean {' or '.join(map(repr, close))}? " if close else "") + known,
        )

    def __str__(self) -> str:
        lines = [self.header]
        for entry in self.entries:
            lines.extend(_render(entry, 1))
        return "\n".join(lines)


def outline_of(program: Program) -> Outline:
    """The named tree of ``program``."""
    from .program import TensorParam

    parts = [
        f"{param.name}: {param.dtype}[{', '.join(map(str, param.shape))}]"
        if isinstance(param, TensorParam)
        else f"{param.name}: {param.dtype}"
        for param in program.params
    ]
    return Outline(f"{program.name}({', '.join(parts)})", entries_of(program.func))


def _render(entry: Entry, depth: int) -> Iterator[str]:
    name = {"buffer": "buffer ", "loop": "loop "}.get(entry.kind, "")
    if entry.label.startswith(("parallel", "while")):
        name = ""
    text = f"{'  ' * depth}{name}{entry.label}" + (f": {entry.text}" if entry.text else "")
    yield f"{text:<{_COLUMN}} line {entry.span.line}" if entry.span else text
    for child in entry.children:
        yield from _render(child, depth + 1)


def _listing(labels: list[str]) -> str:
    shown = ", ".join(labels[:_SHOWN])
    return shown + (f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else "")
