"""Errors raised while a kernel is traced, told in terms of the user's source.

TileLang traces a kernel by running rewritten Python. Whatever goes wrong there surfaces as an exception of any type,
after a log record that dumps the rewritten source. Inside ``translate_build_errors`` the record is dropped and the
exception becomes one of the catalogue, at the line and column of the user's code.
"""

from __future__ import annotations

import contextlib
import contextvars
import difflib
import itertools
import linecache
import logging
import os
import re
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright import knobs
from tilewright.errors import SourceSpan, TilewrightError

from ._tilelang import tilelang, tirx
from .dtypes import accepted_names, suggestion
from .errors import (
    BuildError,
    DtypeError,
    ImmutableName,
    IndexOutOfRange,
    ShapeMismatch,
    SourceUnavailable,
    ThreadError,
    UndefinedName,
)
from .lint import lint_function
from .operations import buffer_shape, shape_text
from .source import function_source

_tracing: contextvars.ContextVar[bool] = contextvars.ContextVar("tilewright_tracing", default=False)
_LIBRARY = str(Path(tilelang.__file__).parent) + os.sep
_BACKEND = ("tilelang", "tvm", "tvm_ffi", "contextlib", "inspect")
_PLUMBING = ("tilewright.dsl", "tilewright.runtime", "tilewright.lowering", "tilewright.schedules")


class _DropDump(logging.Filter):
    """Drops TileLang's dump of the rewritten source, whose exception is about to be translated."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for the dump while a trace is under way."""
        return not (_tracing.get() and record.levelno >= logging.CRITICAL)


for _handler in logging.getLogger("tilelang").handlers:
    _handler.addFilter(_DropDump())


@contextlib.contextmanager
def translate_build_errors(function: Callable[..., Any] | None = None, *, traced: bool = False) -> Iterator[None]:
    """Run code that traces a kernel; every failure leaves as an error of the catalogue.

    Args:
        function: the factory (or the kernel itself) about to run; its source is checked first for assignments that
            tracing would lose.
        traced: ``function`` is itself the traced body (eager style) instead of a factory around it.

    Raises:
        DslError: what went wrong, at the user's line, without the backend's frames (``TILEWRIGHT_DEBUG=1`` keeps them).
    """
    if function is not None:
        lint_function(function, traced=traced)
    token = _tracing.set(True)
    try:
        yield
    except (TilewrightError, Warning):  # a warning is an exception where the user made it one
        raise
    except Exception as error:
        translated = _translate(error, function)
        if translated is None:
            raise
        if knobs.DEBUG.flag():
            raise translated from error
        raise translated from None
    finally:
        _tracing.reset(token)


def _translate(error: Exception, function: Callable[..., Any] | None) -> TilewrightError | None:
    frames = list(traceback.walk_tb(error.__traceback__))
    where = _user_span(frames) or _definition(function)
    for rule in _RULES:
        found = rule(error, frames, where)
        if found is not None:
            return found
    if where is None:
        return None
    return BuildError(f"the kernel cannot be built: {_first_line(error)}", span=where)


Frames = list[tuple[types.FrameType, int]]


def _user_span(frames: Frames) -> SourceSpan | None:
    traced = [entry for entry in frames if _is_traced(entry[0])]
    written = traced or [entry for entry in frames if _is_user(entry[0])]
    if not written:
        return None
    frame, line = written[-1]
    return SourceSpan(frame.f_code.co_filename, line, _column(frame, line))


def _definition(function: Callable[..., Any] | None) -> SourceSpan | None:
    source = None if function is None else function_source(function)
    return None if source is None else source.span(source.tree)


def _is_traced(frame: types.FrameType) -> bool:
    code = frame.f_code
    return "__tb" in (*code.co_varnames, *code.co_freevars) and not code.co_filename.startswith(_LIBRARY)


def _is_user(frame: types.FrameType) -> bool:
    file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
    if module.partition(".")[0] in _BACKEND or module.startswith(_PLUMBING):
        return False
    return file in linecache.cache or (file.endswith(".py") and Path(file).is_file())


def _column(frame: types.FrameType, line: int) -> int:
    text = linecache.getline(frame.f_code.co_filename, line)
    return len(text) - len(text.lstrip()) + 1 if text.strip() else 0


def _locals(frames: Frames, function: str) -> Mapping[str, Any] | None:
    for frame, _ in frames:
        if frame.f_code.co_name == function and frame.f_code.co_filename.startswith(_LIBRARY):
            return frame.f_locals
    return None


def _first_line(error: Exception) -> str:
    text = re.sub(r"Check failed: ", "", str(error)).strip() or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    return first if len(first) <= 300 else first[:297] + "..."


def _undefined(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    if not isinstance(error, NameError) or where is None:
        return None
    name = error.name or (re.findall(r"'(\w+)'", str(error)) or ["?"])[0]
    frame = frames[-1][0]
    known = [known for known in itertools.chain(frame.f_locals, frame.f_globals) if not known.startswith("__")]
    close = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "define it before the kernel or pass it to the factory"
    return UndefinedName(f"name {name!r} is not defined", span=_at_word(where, name), remedy=remedy)


def _attribute(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    if not isinstance(error, AttributeError) or where is None or not error.name:
        return None
    owner = error.obj
    close = difflib.get_close_matches(error.name, dir(owner), n=2)
    label = "T" if isinstance(owner, types.ModuleType) else type(owner).__name__
    remedy = f"did you mean {' or '.join(f'{label}.{name}' for name in close)}?" if close else ""
    return UndefinedName(f"{label} has no {error.name!r}", span=_at_word(where, error.name), remedy=remedy)


def _at_word(where: SourceSpan, word: str) -> SourceSpan:
    text = linecache.getline(where.file, where.line)
    match = re.search(rf"\b{re.escape(word)}\b", text)
    return SourceSpan(where.file, where.line, match.start() + 1) if match else where


def _copy(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    if "StructuralEqual" not in str(error):
        return None
    seen = _locals(frames, "_normalize_copy_regions") or _locals(frames, "tma_copy")
    if seen is None:
        return None
    source, target = _operand(seen["src"]), _operand(seen["dst"])
    return ShapeMismatch(
        f"copy: {source} does not have the shape of {target}", span=where,
        remedy="copy between regions of equal extents, e.g. T.copy(A[i, j], A_shared), or give both buffers one shape",
    )  # fmt: skip


def _operand(value: Any) -> str:
    buffer = value if isinstance(value, tirx.Buffer) else getattr(value, "buffer", None)
    if buffer is None:
        return str(value)
    return f"{buffer.name} {shape_text(buffer_shape(buffer))}"


def _gemm(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    seen = _locals(frames, "_gemm_dense_slots")
    if seen is None or not isinstance(error, (AssertionError, ValueError)):
        return None
    values = {}
    for side, flag in (("A", "transpose_A"), ("B", "transpose_B"), ("C", None)):
        values[side] = _operand(seen[side]) + (" transposed" if flag and seen[flag] is True else "")
    what = re.sub(
        r"^T\.gemm (\w) shape check failed: (\w+) = (.+), (\w+) = (.+)$", r"\1 differs: \3 and \5", str(error)
    )
    return ShapeMismatch(
        f"gemm: {what}", span=where, values=values,
        remedy="A is (M, K), B is (K, N), C is (M, N); use transpose_A or transpose_B for the other orientation",
    )  # fmt: skip


def _dtype(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    text = str(error)
    name = re.search(r"unknown dtype `([^`]*)`", text)
    if name is None and not ("Expected `DataType`" in text and isinstance(error, TypeError)):
        return None
    what = f"unknown dtype {name[1]!r}" if name else "a dtype must be given by name or as a torch dtype"
    wanted = suggestion(name[1]) if name else ""
    remedy = (f"use {wanted!r}; " if wanted else "") + f"dtypes are {accepted_names()}"
    return DtypeError(what, span=where, remedy=remedy)


def _rank(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    match = re.match(r"Buffer (\w+) is (\d+)-dimensional \(shape=(\(.*?\))\), but (\d+) index", str(error))
    if match is None:
        return None
    name, rank, shape, given = match.groups()
    return IndexOutOfRange(
        f"{name} has {rank} dimension{'s' if rank != '1' else ''} and is indexed with {given}", span=where,
        values={f"{name}.shape": shape}, remedy=f"give exactly {rank} index(es) or slices",
    )  # fmt: skip


def _integer(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    if not re.search(r"is_int\(\)|is_bool\(\)", str(error)):
        return None
    operator = _locals(frames, "__floordiv__") or _locals(frames, "__mod__") or _locals(frames, "__rfloordiv__")
    if "is_bool" in str(error):
        what, remedy = "a condition is needed, not a number", "compare first, e.g. (a > 0) and (b > 0)"
    else:
        what = "'//' and '%' need integers" if operator else "an integer is needed"
        remedy = "use T.floor(a / b) for floating point"
    return DtypeError(f"{what}: {_operands(operator)}" if operator else what, span=where, remedy=remedy)


def _operands(seen: Mapping[str, Any]) -> str:
    sides = [value for name, value in seen.items() if name in ("self", "other")]
    return " and ".join(f"{value} ({getattr(value, 'dtype', type(value).__name__)})" for value in sides)


def _immutable(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    match = re.search(r"Immutable variable `(\w+)`", str(error))
    if match is None:
        match = re.search(r"variables? \[?`?\(?(\w+)", str(error)) if "not passed in" in str(error) else None
    if match is None:
        return None
    return ImmutableName(
        f"{match[1]!r} is used outside the block that binds it", span=where,
        remedy=f"allocate a mutable scalar before the block: {match[1]} = T.alloc_var(dtype), then assign to it",
    )  # fmt: skip


def _source(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    if not (isinstance(error, OSError) and "source code" in str(error)):
        return None
    return source_unavailable("the kernel")


def _nesting(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    match = re.search(r"too many statically nested blocks(?: \(.*?, line (\d+)\))?", str(error))
    if match is None:
        return None
    if where is not None and match[1]:
        text = linecache.getline(where.file, int(match[1]))
        where = SourceSpan(where.file, int(match[1]), len(text) - len(text.lstrip()) + 1)
    return BuildError(
        "the kernel nests too deep: tracing turns every if, elif, for and with into blocks, and Python allows 20",
        span=where,
        remedy="move parts into T.macro helpers, or write a chain of elif as separate ifs",
    )


def source_unavailable(name: str) -> SourceUnavailable:
    """The error for a kernel whose text Python did not keep."""
    return SourceUnavailable(
        f"{name} has no source text: it was typed into an interpreter or made by exec, and tracing reads the source",
        remedy="put it in a file, or execute its text with tilewright.dsl.load_source(text)",
    )


def _threads(error: Exception, frames: Frames, where: SourceSpan | None) -> TilewrightError | None:
    if not re.match(r"threads must be", str(error)):
        return None
    return ThreadError(str(error), span=where, remedy="give threads= between 1 and 1024, a multiple of 32")


_RULES = (
    _undefined,
    _attribute,
    _copy,
    _gemm,
    _dtype,
    _rank,
    _integer,
    _immutable,
    _source,
    _nesting,
    _threads,
)
