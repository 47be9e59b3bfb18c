"""Lines of the user's kernel: operations with their places, and line directives that lead there.

Bodies that TileLang's macros generate carry the places of TileLang's own files. ``retarget`` points their line
directives at the operation of the kernel they belong to, told by the buffers that they use.
"""

from __future__ import annotations

import functools
import linecache
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.errors import SourceSpan

from .toolchain import tilelang_folder

_DIRECTIVE = re.compile(r'^\s*#line (\d+) "(.*)"\s*$')
_BARRIER = re.compile(r"\s*(__syncthreads|tl::__sync_thread_partial)\b")
_GUARD = re.compile(r"\s*if \(.*\) \{$")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Operation:
    """A tile operation of a program: its name (``gemm``, ``copy`` ...), the buffers it uses, and its place."""

    name: str
    buffers: frozenset[str]
    place: SourceSpan


@functools.cache
def _span_function() -> Callable[[Any], Any]:
    import tvm_ffi

    function: Callable[[Any], Any] = tvm_ffi.get_global_func("tl.ir.GetStmtSpan")
    return function


def _placed(func: Any) -> list[tuple[Any, SourceSpan]]:
    """The statements of a PrimFunc that have a place, in program order."""
    from tvm import tirx

    found: list[tuple[Any, SourceSpan]] = []

    def visit(node: Any) -> None:
        span = _span_function()(node) if isinstance(node, tirx.Stmt) else None
        if span is not None:
            found.append((node, SourceSpan(str(span.source_name.name), int(span.line))))

    tirx.stmt_functor.post_order_visit(func.body, visit)
    return found


def operations(func: Any) -> tuple[Operation, ...]:
    """The tile operations of a PrimFunc in program order; those of TileLang's macros get the line that calls them."""
    found = [Operation(*_describe(node), place) for node, place in _placed(func)]
    return tuple(op for op in _place_macros(found) if op.name)


@dataclass(frozen=True)
class Statement:
    """A barrier (``buffer`` is empty) or a store to an element of a buffer, and its place."""

    buffer: str
    place: SourceSpan


def _is_barrier(node: Any) -> bool:
    from tvm import tirx

    called = node.value if isinstance(node, tirx.Evaluate) else None
    return isinstance(called, tirx.Call) and str(getattr(called.op, "name", "")) == "tirx.tvm_storage_sync"


def statements(func: Any) -> tuple[Statement, ...]:
    """The barriers (``T.sync_threads``) and element stores of a PrimFunc, in program order."""
    from tvm import tirx

    found: list[Statement] = []
    for node, place in _placed(func):
        if isinstance(node, tirx.BufferStore):
            found.append(Statement(str(node.buffer.name), place))
        elif _is_barrier(node):
            found.append(Statement("", place))
    return tuple(statement for statement in found if not internal(statement.place.file))


def with_places(cuda: str, known: Sequence[Statement]) -> str:
    """Generated CUDA with line directives for what the passes lost the place of: barriers, and stores behind a guard.

    Such a line belongs to the first fitting statement of ``known`` between the lines of the statements around it.
    """
    source = cuda.split("\n")
    following = _following(source)
    lines: list[str] = []
    before = opening = ""
    for index, line in enumerate(source):
        place = _lost_place(line, opening, before, following[index], known)
        if place is not None:
            before = f'#line {place.line} "{place.file}"'
            lines.append(before)
        elif _DIRECTIVE.match(line):
            before = line
        lines.append(line)
        opening = line
    return "\n".join(lines)


def _lost_place(line: str, opening: str, before: str, behind: str, known: Sequence[Statement]) -> SourceSpan | None:
    if _BARRIER.match(line):
        return _between_directives(before, behind, [s.place for s in known if not s.buffer])
    target, equals, _ = line.partition(" = ")
    if equals and _GUARD.match(opening):
        names = set(_WORD.findall(target))
        return _between_directives(before, behind, [s.place for s in known if s.buffer in names])
    return None


def _following(lines: Sequence[str]) -> list[str]:
    """For each line the next line directive behind it, or nothing."""
    out: list[str] = []
    directive = ""
    for line in reversed(lines):
        out.append(directive)
        if _DIRECTIVE.match(line):
            directive = line
    return out[::-1]


def _between_directives(before: str, behind: str, places: Sequence[SourceSpan]) -> SourceSpan | None:
    last, following = _DIRECTIVE.match(before), _DIRECTIVE.match(behind)
    if last is None:
        return None
    end = int(following[1]) if following is not None and following[2] == last[2] else 0
    for place in places:
        if place.file == last[2] and int(last[1]) < place.line and (place.line < end or end <= int(last[1])):
            return place
    return None


def _describe(stmt: Any) -> tuple[str, frozenset[str]]:
    from tvm import tirx

    if not isinstance(stmt, tirx.Evaluate) or not isinstance(stmt.value, tirx.Call):
        return "", frozenset()
    name = str(getattr(stmt.value.op, "name", ""))
    if not name.startswith("tl."):
        return "", frozenset()
    buffers: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferLoad):
            buffers.add(str(node.buffer.name))

    tirx.stmt_functor.post_order_visit(stmt.value, visit)
    return name.rpartition(".")[2], frozenset(buffers)


def _place_macros(found: Sequence[Operation]) -> list[Operation]:
    """A statement that came from a macro lies between its neighbours: look there for a line that names it."""
    placed: list[Operation] = []
    last: SourceSpan | None = None
    for index, op in enumerate(found):
        if not internal(op.place.file):
            last = op.place
            placed.append(op)
            continue
        following = next((o.place for o in found[index + 1 :] if not internal(o.place.file)), None)
        placed.append(replace(op, place=_between(op.name, last, following) or op.place))
    return placed


def _between(name: str, first: SourceSpan | None, last: SourceSpan | None) -> SourceSpan | None:
    start = first or last
    if start is None:
        return None
    end = last.line if last is not None and last.file == start.file else start.line + 1
    word = re.compile(rf"\b{re.escape(name)}(_\w+)?\s*\(") if name else None
    for line in range(start.line, max(end, start.line) + 1):
        if word is not None and word.search(linecache.getline(start.file, line)):
            return SourceSpan(start.file, line)
    return start


def internal(file: str) -> bool:
    """True for TileLang's own Python files."""
    return Path(file).suffix == ".py" and file.startswith(f"{tilelang_folder()}/")


def retarget(cuda: str, ops: Sequence[Operation]) -> str:
    """Generated CUDA whose line directives name the user's files only. The number of lines stays the same."""
    lines = cuda.split("\n")
    starts = [i for i, line in enumerate(lines) if _DIRECTIVE.match(line)]
    previous: SourceSpan | None = None
    for number, start in enumerate(starts):
        found = _DIRECTIVE.match(lines[start])
        assert found is not None
        if not internal(found[2]):
            previous = None
            continue
        end = starts[number + 1] if number + 1 < len(starts) else len(lines)
        place = _owner(found[2], lines[start + 1 : end], ops) or previous or _ahead(lines, starts[number + 1 :], ops)
        if place is not None:
            lines[start] = f'#line {place.line} "{place.file}"'
            previous = place
    return "\n".join(lines)


def with_line_directives(cuda: str) -> str:
    """The source for the compiler: every line has its own directive, since a compiler counts on after one."""
    lines: list[str] = []
    directive = ""
    continued = False
    for line in cuda.split("\n"):
        if _DIRECTIVE.match(line):
            directive = line
            continue
        if directive and line.strip() and not continued:
            lines.append(directive)
        lines.append(line)
        continued = line.endswith("\\")
    return "\n".join(lines)


def _owner(file: str, body: Sequence[str], ops: Sequence[Operation]) -> SourceSpan | None:
    words = set(_WORD.findall("\n".join(body)))
    kind = "reduce" if "reduce" in Path(file).name else "gemm" if "macro_generator" in Path(file).name else ""
    suited = [op for op in ops if kind in op.name and not internal(op.place.file)]
    if len({op.place for op in suited}) == 1:
        return suited[0].place
    scored = [(len(op.buffers & words), op) for op in suited]
    best = max((score for score, _ in scored), default=0)
    winners = [op for score, op in scored if score == best]
    return winners[0].place if best and len({op.place for op in winners}) == 1 else None


def _ahead(lines: Sequence[str], starts: Sequence[int], ops: Sequence[Operation]) -> SourceSpan | None:
    """The owner of the next directive that has one, as long as they lead into TileLang's files."""
    for number, start in enumerate(starts):
        found = _DIRECTIVE.match(lines[start])
        if found is None or not internal(found[2]):
            return None
        end = starts[number + 1] if number + 1 < len(starts) else len(lines)
        place = _owner(found[2], lines[start + 1 : end], ops)
        if place is not None:
            return place
    return None


def likely_place(func: Any, text: str) -> SourceSpan | None:
    """The place of the only operation that a TileLang message without a place can mean, if there is one."""
    word = next(
        (w for w in ("gemm", "copy", "reduce", "atomic_add") if w in text), "gemm" if "micro_size" in text else ""
    )
    word = word or ("gemm" if "divisible by 16" in text else "")
    places = {op.place for op in operations(func) if word and word in op.name}
    return places.pop() if len(places) == 1 else None
