"""Source spans of TIR nodes: read, copied onto rewritten nodes, and turned into places a message can show."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.errors import SourceSpan

from ._tilelang import ffi


@functools.cache
def _function(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = ffi.get_global_func(name)
    return function


def stmt_span(stmt: Any) -> Any:
    """The raw span of a statement, or None."""
    return _function("tl.ir.GetStmtSpan")(stmt)


def keep_span(new: Any, old: Any) -> Any:
    """``new`` with the span of ``old`` when it has none of its own."""
    span = stmt_span(old)
    if span is not None and stmt_span(new) is None:
        _function("tl.ir.SetStmtSpan")(new, span)
    return new


def stamp(stmt: Any, span: Any) -> Any:
    """``stmt`` with ``span`` on it and on every statement below that has none."""
    if span is not None:
        _function("tl.ir.StampSubtreeSpans")(stmt, span)
    return stmt


def keep_func_span(new: Any, old: Any) -> Any:
    """``new`` with the function span and the traced Python function of ``old``."""
    if new.span is None and old.span is not None:
        _function("tl.ir.SetPrimFuncSpan")(new, old.span)
    return new


def buffer_span(buffer: Any) -> Any:
    """The raw span of a buffer's allocation or parameter, or None."""
    return _function("tl.ir.GetBufferSpan")(buffer)


def keep_buffer_span(new: Any, old: Any) -> Any:
    """``new`` with the span of the buffer ``old``."""
    span = buffer_span(old)
    if span is not None:
        _function("tl.ir.SetBufferSpan")(new, span)
    return new


def place(span: Any) -> SourceSpan | None:
    """A raw span as file, line and column; TileLang records whole lines, the column is that of the first character."""
    if span is None:
        return None
    file, line = _readable(str(span.source_name.name)), int(span.line)
    text = linecache.getline(file, line)
    indent = len(text) - len(text.lstrip())
    return SourceSpan(file, line, indent + 1 if text.strip() else 0)


def _readable(file: str) -> str:
    # TileLang makes every name absolute, also the invented "<...>" names of executed text
    name = Path(file).name
    return name if name.startswith("<") else file
