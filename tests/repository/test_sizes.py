"""A file has at most 500 lines, a function at most 60 (docstring aside), in Python and in C++."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 500
FUNCTION_LINES = 60
# "path" or "path:function" -> why it is longer
TILE_PROGRAM = "a tile program with its parameters, which TileLang reads as one text"
EXCEPTIONS: dict[str, str] = {
    "ops/attention_backward.py:attention_keys_backward": TILE_PROGRAM,
    "ops/attention_backward.py:attention_queries_backward": TILE_PROGRAM,
    "ops/attention_backward.py:main": TILE_PROGRAM,
    "ops/attention_programs.py:attention_forward": TILE_PROGRAM,
    "ops/attention_programs.py:main": TILE_PROGRAM,
    "ops/gemm_fma.py:gemm_fma": TILE_PROGRAM,
    "tests/vgpu/wgmma_operands.py:kernel": "one PTX text",
}
CPP = (".cpp", ".h")
_CONTROL = re.compile(r"\b(if|for|while|switch|catch|else|do|return)\b[^;{}]*$")
_FUNCTION = re.compile(r"([~\w:]+)\s*\([^;{}]*\)\s*(?:const|noexcept|override|final|->\s*[\w:<>,&*\s]+|:[^;{}]*)*\s*$")
_NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^\s*#(?:\\\n|[^\n])*", re.S | re.M)


def python_functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                lines -= (first.end_lineno or first.lineno) - first.lineno + 1
            yield node.name, lines


def cpp_functions(text: str) -> Iterator[tuple[str, int]]:
    """Name and length of every function body: a block behind a parameter list, outside any other such block."""
    text = _NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    depth, inside, start, name, head = 0, 0, 0, "", 0
    for position, character in enumerate(text):
        if character == "{":
            depth += 1
            match = _FUNCTION.search(text[head:position])
            if not inside and match and not _CONTROL.search(text[head:position]):
                inside, name, start = depth, match.group(1), head + match.start()
            head = position + 1
        elif character == "}":
            if depth == inside:
                yield name, text.count("\n", start, position) + 1
                inside = 0
            depth -= 1
            head = position + 1
        elif character == ";":
            head = position + 1


def too_long(root: Path, files: list[Path], trees: dict[Path, ast.Module]) -> dict[str, int]:
    found = {}
    for path in files:
        if path.suffix not in (".py", *CPP):
            continue
        text = (root / path).read_text()
        if len(text.splitlines()) > FILE_LINES:
            found[str(path)] = len(text.splitlines())
        functions = cpp_functions(text) if path.suffix in CPP else python_functions(trees[path])
        found.update({f"{path}:{name}": lines for name, lines in functions if lines > FUNCTION_LINES})
    return found


def test_files_and_functions_are_short(root: Path, files: list[Path], trees: dict[Path, ast.Module]) -> None:
    found = {name: lines for name, lines in too_long(root, files, trees).items() if name not in EXCEPTIONS}
    assert not found, "\n".join(f"{name}: {lines} lines" for name, lines in found.items())


def test_every_exception_is_still_needed(root: Path, files: list[Path], trees: dict[Path, ast.Module]) -> None:
    assert set(EXCEPTIONS) <= set(too_long(root, files, trees))
    assert all(EXCEPTIONS.values())


def test_the_cpp_counter_counts() -> None:
    text = """
    namespace a {
    // void commented() {
    struct S {
        S(int x) : x_{x} { f("}"); }
        int get() const {
            if (x_) {
                return 1;
            }
            return 0;
        }
    };
    static const int table[] = {1, 2};
    }
    """
    assert list(cpp_functions(text)) == [("S", 1), ("get", 6)]
