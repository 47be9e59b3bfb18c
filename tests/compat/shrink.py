"""A copy of an examples folder whose sizes fit a virtual GPU: literals of known names are capped."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

CAPS: tuple[tuple[str, int], ...] = (
    (r"(batch|batch_size|bs|z)", 1),
    (r"(b|num_batch)", 2),
    (r"(m|n|k|n_dim|hidden|hidden_size|in_dim|out_dim|d_hidden|d_expert)", 1024),
    (
        r"(s|t|sq|skv|seq|seqlen|seq_len|seq_q|seq_kv|seq_len_kv|seqlen_q|seqlen_kv|q_seqlen|k_seqlen|kv_seqlen|n_ctx|"
        r"q_len|kv_len|q_ctx|max_seqlen|max_cache_seqlen|seqlen_k|seq_length|cache_seqlen|ctx|tokens|num_tokens|total_seq)",
        512,
    ),
    (r"(topk|topk_tokens)", 128),
    (r"(heads|head|num_heads|n_heads|hq|num_head|q_heads)", 64),
    (r"(warmup|rep|iters|n_iters|num_iters|runs|n_warmup|n_repeat)", 1),
)


def cap(name: str, value: int) -> int:
    """The value that a size of this name gets."""
    key = name.lower().lstrip("-").replace("-", "_")
    for pattern, limit in CAPS:
        if re.fullmatch(pattern, key):
            return min(value, limit)
    return value


def _constant(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Add):
        left, right = _constant(node.left), _constant(node.right)
        if left is None or right is None:
            return None
        return left * right if isinstance(node.op, ast.Mult) else left + right
    return None


def _defaults(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    arguments = [*function.args.posonlyargs, *function.args.args]
    given = function.args.defaults
    yield from ((a.arg, d) for a, d in zip(arguments[len(arguments) - len(given) :], given, strict=True))
    yield from ((a.arg, d) for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d)


def _assigned(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from (
                (t.id, v) for t, v in zip(target.elts, node.value.elts, strict=False) if isinstance(t, ast.Name)
            )


def _passed(call: ast.Call, functions: Mapping[str, ast.FunctionDef]) -> Iterator[tuple[str, ast.expr]]:
    first = call.args[0] if call.args else None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" and isinstance(first, ast.Constant):
        yield from ((str(first.value), k.value) for k in call.keywords if k.arg == "default")
        return
    yield from ((k.arg, k.value) for k in call.keywords if k.arg)
    if isinstance(call.func, ast.Name) and call.func.id in functions and "div" not in call.func.id:
        arguments = [a.arg for a in functions[call.func.id].args.args]
        yield from zip(arguments, call.args, strict=False)


def _sizes(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from _defaults(node)
        elif isinstance(node, ast.Assign):
            yield from _assigned(node)
        elif isinstance(node, ast.Call):
            yield from _passed(node, functions)


def shrink(text: str) -> str:
    """The text with capped sizes; lines keep their numbers."""
    lines = text.splitlines(keepends=True)
    edits = set()
    for name, node in _sizes(ast.parse(text)):
        value = _constant(node)
        if value is not None and cap(name, value) != value and node.lineno == node.end_lineno:
            edits.add((node.lineno - 1, node.col_offset, node.end_col_offset, cap(name, value)))
    for line, start, end, value in sorted(edits, reverse=True):
        raw = lines[line].encode()
        lines[line] = (raw[:start] + str(value).encode() + raw[end or 0 :]).decode()
    return "".join(lines)


def copy(source: Path, target: Path, edits: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
    """Write the shrunk copy of a folder; ``edits`` are further replacements by file.

    Raises:
        ValueError: the text that an edit replaces is not in the file.
    """
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    for path in target.rglob("*.py"):
        text = shrink(path.read_text())
        for old, new in edits.get(path.relative_to(target).as_posix(), ()):
            if old not in text:
                raise ValueError(f"{path}: nothing reads {old!r}")
            text = text.replace(old, new)
        path.write_text(text)
