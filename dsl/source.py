"""The source of a kernel's Python function: its syntax tree at the lines and columns of the file."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.errors import SourceSpan


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """A function's file, first line, text and syntax tree; tree columns are short by ``indent``."""

    file: str
    line: int
    text: str
    tree: ast.FunctionDef
    indent: int

    def span(self, node: ast.AST) -> SourceSpan:
        """The place of a node of the tree."""
        return SourceSpan(self.file, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + self.indent + 1)


def function_source(function: Callable[..., Any]) -> FunctionSource | None:
    """The source of a Python function, None when Python kept none (``exec``, interpreter)."""
    code = getattr(function, "__code__", None)
    return _source_of_code(code) if isinstance(code, types.CodeType) else None


@functools.lru_cache(maxsize=256)
def _source_of_code(code: types.CodeType) -> FunctionSource | None:
    try:
        lines, start = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return None
    text = "".join(lines)
    indent = len(lines[0]) - len(lines[0].lstrip())
    try:
        module = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return None
    ast.increment_lineno(module, start - 1)
    tree = module.body[0] if module.body else None
    if not isinstance(tree, ast.FunctionDef):
        return None
    return FunctionSource(code.co_filename, start, text, tree, indent)


def captured_values(function: Callable[..., Any]) -> Mapping[str, object]:
    """The globals a function's code names and its closure, by name."""
    code: types.CodeType = function.__code__
    values = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # bound later in the enclosing function
            continue
    return values


_loaded = 0


def load_source(text: str, name: str | None = None) -> dict[str, Any]:
    """Execute kernel source given as text, so that it can be traced and its lines shown in messages.

    Args:
        text: Python source.
        name: what messages call it; ``<kernel 1>``, ``<kernel 2>``, ... by default.

    Returns:
        The names it defines.
    """
    global _loaded
    _loaded += 1
    file = name or f"<kernel {_loaded}>"
    entry = (len(text), None, text.splitlines(keepends=True), file)
    linecache.cache[file] = entry
    linecache.cache[os.path.abspath(file)] = entry  # noqa: PTH100  TileLang makes span names absolute
    namespace: dict[str, Any] = {"__name__": file}
    exec(compile(text, file, "exec"), namespace)
    return namespace
