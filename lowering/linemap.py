"""The line map of an artifact: from each PTX line (and SASS address) to its CUDA line and its line of the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewright.errors import SourceSpan

from .artifact import Artifact
from .disassemble import disassemble, parse_sass

_DIRECTIVE = re.compile(r'^\s*#line (\d+) "(.*)"\s*$')
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at (\d+) (\d+) (\d+))?")
_NOT_CODE = re.compile(r"^\s*($|//|\.|\$|\{|\}|\)|[\w$]+:)")

_CUDA_FILE = "kernel.cu"
_Loc = tuple[int, int, int]


@dataclass(frozen=True)
class LineRecord:
    """One PTX instruction (or SASS one, with ``address``): where it comes from; 0 and None mean unknown."""

    python: SourceSpan | None
    cuda: int
    ptx: int
    kernel: str = ""
    address: int | None = None


@dataclass(frozen=True)
class LineMap:
    """All records of an artifact; lines count from 1."""

    records: tuple[LineRecord, ...]
    cuda_lines: tuple[SourceSpan | None, ...]

    @cached_property
    def _by_ptx(self) -> Mapping[int, LineRecord]:
        return {record.ptx: record for record in self.records if record.ptx}

    def of_ptx(self, line: int) -> LineRecord | None:
        """The record of a PTX line."""
        return self._by_ptx.get(line)

    def of_cuda(self, line: int) -> SourceSpan | None:
        """The kernel's line behind a CUDA line."""
        return self.cuda_lines[line - 1] if 0 < line <= len(self.cuda_lines) else None

    def text(self) -> str:
        """A table: kernel line, CUDA line, the ranges of PTX lines and SASS addresses that come from them."""
        groups: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        for record in self.records:
            ptx, sass = groups.setdefault((str(record.python or "-"), record.cuda), ([], []))
            if record.ptx:
                ptx.append(record.ptx)
            if record.address is not None:
                sass.append(record.address)
        rows = [
            f"{python}  cuda {cuda or '-'}  ptx {_ranges(ptx, 1)}  sass {_ranges(sass, 16, '04x')}"
            for (python, cuda), (ptx, sass) in groups.items()
        ]
        return "\n".join(rows) + "\n"


def line_map(artifact: Artifact, *, sass: bool = False) -> LineMap:
    """The line map; ``sass`` adds a record for each SASS instruction (this runs a disassembler).

    Raises:
        ToolchainMissing: ``sass`` was asked for and there is no disassembler.
    """
    places = cuda_places(artifact.cuda)
    lookup = _CudaLookup(artifact.cuda.split("\n"), places)
    records = list(_ptx_records(artifact.ptx, lookup))
    if sass:
        records.extend(_sass_records(artifact, lookup))
    return LineMap(tuple(records), tuple(places))


def cuda_places(cuda: str) -> list[SourceSpan | None]:
    """The kernel's line for each line of generated CUDA, None before the first line directive."""
    current: SourceSpan | None = None
    places: list[SourceSpan | None] = []
    for line in cuda.split("\n"):
        directive = _DIRECTIVE.match(line)
        if directive:
            current = SourceSpan(directive[2], int(directive[1]))
        places.append(current)
    return places


class _CudaLookup:
    """Finds the CUDA line that a place with a column means: several CUDA lines can come from one line of the kernel."""

    def __init__(self, lines: Sequence[str], places: Sequence[SourceSpan | None]) -> None:
        self._lines = lines
        self._places = places
        self._numbers: dict[tuple[str, int], list[int]] = {}
        for number, place in enumerate(places, start=1):
            if place is not None and not _DIRECTIVE.match(lines[number - 1]):
                self._numbers.setdefault((place.file, place.line), []).append(number)

    def of(self, number: int) -> SourceSpan | None:
        """The kernel's line behind a CUDA line."""
        return self._places[number - 1] if 0 < number <= len(self._places) else None

    def find(self, file: str, line: int, column: int) -> int:
        """The CUDA line, or 0."""
        if file.rpartition("/")[2] == _CUDA_FILE:
            return line
        candidates = self._numbers.get((file, line), [])
        fitting = [n for n in candidates if column and self._starts(n, column)]
        return (fitting or candidates or [0])[0]

    def find_line(self, line: int) -> int:
        """The first CUDA line that comes from that line of any of the kernel's files, or 0."""
        return min((numbers[0] for (_, at), numbers in self._numbers.items() if at == line), default=0)

    def _starts(self, number: int, column: int) -> bool:
        text = self._lines[number - 1]
        at = text[column - 1 : column]
        before = text[column - 2 : column - 1] if column > 1 else " "
        return bool(at.strip()) and not (at.isalnum() and before.isalnum())


def _ptx_records(ptx: str, lookup: _CudaLookup) -> Iterator[LineRecord]:
    lines = ptx.split("\n")
    files = {int(m[1]): m[2] for line in lines if (m := _FILE.match(line))}
    outermost: dict[_Loc, _Loc] = {}
    current: _Loc | None = None
    kernel = ""
    for number, line in enumerate(lines, start=1):
        entry = re.match(r"^\s*(?:\.visible )?\.entry ([\w$]+)", line)
        if entry:
            kernel, current = entry[1], None
            continue
        loc = _LOC.match(line)
        if loc and loc[2] == "0":
            continue  # merged code has no line: it belongs to what is before it
        if loc:
            # resolved at once: recursive templates inline a place into itself
            place = (int(loc[1]), int(loc[2]), int(loc[3]))
            caller = (int(loc[4]), int(loc[5]), int(loc[6])) if loc[4] else place
            current = outermost[place] = outermost.get(caller, caller) if loc[4] else place
        elif kernel and current is not None and not _NOT_CODE.match(line):
            file, at, column = current
            name = files.get(file, "")
            cuda = lookup.find(name, at, column)
            yield LineRecord(_python(name, at, cuda, lookup), cuda, number, kernel)


def _python(file: str, line: int, cuda: int, places: _CudaLookup) -> SourceSpan | None:
    if cuda:
        return places.of(cuda)
    return SourceSpan(file, line) if file.endswith(".py") and line else None


def _sass_records(artifact: Artifact, lookup: _CudaLookup) -> Iterator[LineRecord]:
    for instruction in parse_sass(disassemble(artifact)):
        file, line = instruction.places[-1] if instruction.places else ("", 0)
        if len(instruction.places) > 1 and file.rpartition("/")[2] == _CUDA_FILE:
            # cubins name the function's file as the place of inlining, but the line of the directive's file
            cuda = lookup.find_line(line)
        else:
            cuda = lookup.find(file, line, 0)
        yield LineRecord(_python(file, line, cuda, lookup), cuda, 0, instruction.kernel, instruction.address)


def _ranges(numbers: Sequence[int], step: int, form: str = "d") -> str:
    parts: list[str] = []
    start = previous = None
    for number in [*sorted(set(numbers)), None]:
        if start is not None and (number is None or previous is None or number != previous + step):
            parts.append(f"{start:{form}}" if start == previous else f"{start:{form}}-{previous:{form}}")
            start = None
        if start is None:
            start = number
        previous = number
    return ",".join(parts) or "-"
