"""The root of every error that Tilewright raises, and how an error is shown.

A message says what is wrong, where (file, line and column with the source line and a caret), which values were seen,
and what to do about it. Each layer keeps its own catalogue of subclasses; this module imports nothing of ours.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceSpan:
    """A place in a source file. ``line`` and ``column`` count from 1; ``column`` 0 means the whole line."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")

    def excerpt(self) -> list[str]:
        """The source line with a caret under the column, or nothing when the file cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return []
        number = str(self.line)
        lines = [f"  {number} | {text}"]
        if self.column:
            lines.append(f"  {' ' * len(number)} | {' ' * (self.column - 1)}^")
        return lines


class TilewrightError(Exception):
    """What went wrong, where, with which values, and the remedy. Root of every error of this package.

    Args:
        what: one sentence that names the argument or object at fault.
        span: the place in the user's source, if there is one.
        values: the values seen, by name.
        remedy: what the reader can do.
    """

    def __init__(
        self,
        what: str,
        *,
        span: SourceSpan | None = None,
        values: Mapping[str, object] | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.span = span
        self.values = dict(values or {})
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.what]
        if self.span is not None:
            lines.append(f" --> {self.span}")
            lines.extend(self.span.excerpt())
        if self.values:
            lines.append("  seen: " + ", ".join(f"{name} = {value}" for name, value in self.values.items()))
        if self.remedy:
            lines.append(f"  fix: {self.remedy}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.span, self.values, self.remedy))


def _rebuild(
    kind: type[TilewrightError], what: str, span: SourceSpan | None, values: dict[str, object], remedy: str
) -> TilewrightError:
    return kind(what, span=span, values=values, remedy=remedy)


class KnobError(TilewrightError, ValueError):
    """An environment variable ``TILEWRIGHT_*`` holds a value that it cannot take."""
