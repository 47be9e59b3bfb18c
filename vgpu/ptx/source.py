"""From PTX lines to the lines of the sources they were compiled from, through ``.loc`` directives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .parse import Function

_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_Place = tuple[int, int, int]


@dataclass(frozen=True)
class SourceLine:
    """A line of a source file, as named by the compiler."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def source_chain(function: Function, files: dict[int, str], ptx_line: int) -> tuple[SourceLine, ...]:
    """The source line of the statement at ``ptx_line``, then those of its inlining callers, outermost last.

    Empty when no ``.loc`` stands in front of the statement.
    """
    return source_chains(function, files, (ptx_line,))[ptx_line]


def source_chains(
    function: Function, files: dict[int, str], ptx_lines: Iterable[int]
) -> dict[int, tuple[SourceLine, ...]]:
    """:func:`source_chain` of many lines, in one pass over the function."""
    callers: dict[_Place, _Place | None] = {}
    here: _Place | None = None
    out: dict[int, tuple[SourceLine, ...]] = {}
    locations = iter([(text, line) for kind, text, line in function.tokens if kind == "loc"])
    following = next(locations, None)
    for wanted in sorted(set(ptx_lines)):
        while following is not None and following[1] <= wanted:
            if m := _LOC.match(following[0]):
                numbers = [int(g) for g in m.groups() if g is not None]
                here = (numbers[0], numbers[1], numbers[2])
                callers[here] = (numbers[3], numbers[4], numbers[5]) if len(numbers) == 6 else None
            following = next(locations, None)
        out[wanted] = _chain(callers, files, here)
    return out


def _chain(callers: dict[_Place, _Place | None], files: dict[int, str], here: _Place | None) -> tuple[SourceLine, ...]:
    chain: list[SourceLine] = []
    while here is not None and len(chain) < 64:
        chain.append(SourceLine(files.get(here[0], f"file {here[0]}"), here[1]))
        here = callers.get(here)
    return tuple(chain)
