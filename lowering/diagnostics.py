"""TileLang's errors and what it prints on stderr, made into our errors and remarks."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright import knobs
from tilewright.dsl import Program
from tilewright.errors import SourceSpan, TilewrightError

from .errors import LoweringError
from .spans import likely_place

_PLACE = re.compile(r"^\s*-->\s*(.+?):(\d+)(?::(\d+))?\s*$", re.MULTILINE)
_CHECK = re.compile(
    r"^(?:Internal\s*Error:\s*)?Check failed:(?:[^\n]*?\(\S+ vs\. \S+\)\s*:|.*? is false:?)\s*(?=\S)", re.DOTALL
)
_HEADER = re.compile(r"^\[\d\d:\d\d:\d\d\]\s*(\S*\s*)?: ?(Warning|Fatal|Error|Info): ?")
_MOST_LINES = 6


def translate(error: Exception, program: Program, step: str) -> TilewrightError:
    """Our error for an exception that TileLang raised in ``step``; at most 12 lines when shown.

    The place is the one TileLang names, else that of the only operation it can mean, else the kernel's first line.
    """
    if isinstance(error, TilewrightError):
        return error
    text = str(error)
    message, span = split_place(text)
    what = f"TileLang cannot lower {program.name}: {_explained(message) or type(error).__name__}"
    return LoweringError(
        what,
        span=span or likely_place(program.func, message) or kernel_span(program),
        values={"step": step},
        remedy=_remedy(text),
    )


@contextlib.contextmanager
def translated(program: Program, step: str) -> Iterator[None]:
    """Translate whatever is raised inside; the cause is kept only with ``TILEWRIGHT_DEBUG=1``."""
    try:
        yield
    except TilewrightError:
        raise
    except Exception as error:
        raise translate(error, program, step) from (error if knobs.DEBUG.flag() else None)


def split_place(text: str) -> tuple[str, SourceSpan | None]:
    """A TileLang message without its excerpt and C++ condition, and the place it names."""
    found = _PLACE.search(text)
    message = text[: found.start()] if found else text
    message = _CHECK.sub("", message.strip())
    lines = [line.rstrip() for line in message.splitlines() if line.strip() and not _frame(line)]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], "..."]
    message = "\n".join(line if len(line) <= 400 else line[:397] + "..." for line in lines)
    return message, SourceSpan(found[1], int(found[2])) if found else None


def kernel_span(program: Program) -> SourceSpan | None:
    """The place of the kernel's definition."""
    return SourceSpan(program.source.file, program.source.line) if program.source is not None else None


def _frame(line: str) -> bool:
    return bool(re.match(r"\s*(\d+:|File \"|at /|Traceback|Stack trace)", line))


_ESCAPED = "Versioned buffer load escaped"
_SHAPES = re.compile(r"InputShape\(\) = \(([\d, ]+)\) shape = \(([\d, ]+)\)")
_CONFLICT = re.compile(r"Layout infer conflict between (\w+) and (\w+)")


def _explained(message: str) -> str:
    """TileLang's message in words, where its own are about the inside of a pass."""
    shapes = _SHAPES.search(message)
    if _ESCAPED in message or (shapes and shapes[1].count(",") != shapes[2].count(",")):
        return (
            "a shared tile that a pipelined loop fills is also used outside that loop, where it has several slots and "
            "none is meant"
        )
    conflict = _CONFLICT.search(message)
    if conflict:
        return (
            f"the fragments {conflict[1]} and {conflict[2]} meet in one statement, and the operations that made them "
            "spread them over the threads in different ways"
        )
    return message


_REMEDIES = (
    ("Versioned buffer load escaped", "copy into a tile of its own before or after the loop, or leave num_stages out"),
    ("InputShape()", "copy into a tile of its own before or after the loop, or leave num_stages out"),
    ("Layout infer conflict", "copy one of them through a shared tile, or give both matrix products one policy"),
    ("must be divisible by 16", "use tile sizes that are multiples of 16 in every dimension of the T.gemm"),
    ("micro_size_k", "make the inner tile dimension a multiple of the matrix instruction's K"),
    ("No valid warp partition", "use fewer threads or a larger tile"),
    ("can not be inferred", "remove the fragment if nothing reads it, or copy it to where its values are used"),
    ("layout", "let both uses of the buffer agree, or copy through another buffer"),
    ("StructuralEqual()(it->second.indices", "copy the fragment to shared memory before reading it with other indices"),
)


def _remedy(text: str) -> str:
    return next((remedy for needle, remedy in _REMEDIES if needle in text), "")


_one_at_a_time = threading.RLock()  # file descriptor 2 belongs to the whole process


@dataclass
class Noise:
    """What was printed on stderr during a ``captured`` block, split into TileLang's messages."""

    remarks: list[str] = field(default_factory=list)


@contextlib.contextmanager
def captured() -> Iterator[Noise]:
    """Collect what native code prints on stderr inside the block.

    Text that is not TileLang's is printed afterwards. Threads take turns, so that each gets its own text.
    """
    noise = Noise()
    with _one_at_a_time, tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield noise
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            remarks, other = classify(file.read().decode(errors="replace"))
            noise.remarks.extend(remarks)
            if other:
                sys.stderr.write(other)


def classify(text: str) -> tuple[list[str], str]:
    """TileLang's warnings as one-line remarks (fatal messages are raised anyway and left out), and all other text."""
    remarks: list[str] = []
    other: list[str] = []
    inside: str | None = None
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line)
        if header:
            inside = header[2]
            if inside == "Warning":
                remarks.append(line[header.end() :].strip())
        elif inside is None or not line.strip():
            other.extend([line] if inside is None else [])
        elif inside == "Warning":
            remarks[-1] += " " + line.strip()
    return remarks, "".join(other)
