"""NVRTC's log as one ``CompileError`` of at most 12 lines: the first error, its CUDA line, and the kernel's line."""

from __future__ import annotations

import re

from tilewright.errors import SourceSpan

from .errors import CompileError

_ERROR = re.compile(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$", re.MULTILINE
)
_PTXAS = re.compile(r"^ptxas (?:error|fatal)\s*: (?P<text>.*)$", re.MULTILINE)
_DIRECTIVE = re.compile(r'^\s*#line (\d+) "(.*)"')
_WIDEST = 300


def compile_error(log: str, cuda: str, plain: str, file: str) -> CompileError:
    """The error for a log of compiling ``plain``: ``cuda`` with its line directives blanked, named ``file``."""
    first = _ERROR.search(log)
    if first is None:
        ptxas = _PTXAS.search(log)
        text = ptxas["text"] if ptxas else next((line for line in log.splitlines() if line.strip()), "no message")
        return CompileError(
            f"the CUDA compiler refused the generated code: {_short(text)}",
            remedy="check compile_flags and the schedule's register settings",
        )
    text, line = first["text"], int(first["line"])
    inner = "" if first["file"] == file else f" (in {first['file']}:{line})"
    if inner:
        line = _reference(log, file)
    values: dict[str, object] = {}
    if 0 < line <= plain.count("\n") + 1:
        values[f"CUDA line {line}"] = _short(plain.split("\n")[line - 1].strip())
    return CompileError(
        f"the CUDA compiler refused the generated code: {_short(text)}{inner}",
        span=python_line(cuda, line),
        values=values,
        remedy="check the dtypes of this operation; `tilewright show --stage cuda` prints the whole source",
    )


def python_line(cuda: str, line: int) -> SourceSpan | None:
    """The Python place of a line (from 1) of generated CUDA, by the line directive in force there."""
    span: SourceSpan | None = None
    for number, text in enumerate(cuda.split("\n"), start=1):
        if number > line:
            break
        directive = _DIRECTIVE.match(text)
        if directive:
            span = SourceSpan(directive[2], int(directive[1]))
    return span


def _reference(log: str, file: str) -> int:
    found = re.search(rf"at line (\d+) of {re.escape(file)}|^{re.escape(file)}\((\d+)\)", log, re.MULTILINE)
    found = found or re.search(r"at line (\d+)\s*$", log, re.MULTILINE)
    return int(next(group for group in found.groups() if group)) if found else 0


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
