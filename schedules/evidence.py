"""Reading proofs of a schedule out of generated code."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from .errors import ScheduleNotApplied
from .primitive import Layout, Lowered, Primitive, written

LINES = "tilewright.lines_of."  # attribute of a scheduled function: the lines of a loop's statements, in order
_BINARY: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: Mapping[str, Callable[..., int]] = {"max": max, "min": min}


def dropped(step: Primitive, artifact: Lowered, seen: str, remedy: str = "") -> ScheduleNotApplied:
    """The error for a step whose effect the code does not show."""
    return ScheduleNotApplied(
        f"{written(step)} was dropped by lowering for {artifact.target.name}", values={"code": seen}, remedy=remedy
    )


def numbers(pattern: str, text: str) -> tuple[int, ...]:
    """The whole numbers that ``pattern`` captures, in order."""
    return tuple(int(match) for match in re.findall(pattern, text))


def bound_extents(program_text: str) -> dict[str, str]:
    """Extent of each grid axis in the IR's text, by ``x``, ``y``, ``z``."""
    pattern = r'T\.thread_binding\((.*), thread="blockIdx\.([xyz])"\)'
    return {axis: extent for extent, axis in re.findall(pattern, program_text)}


def evaluated(text: str, values: Mapping[str, int]) -> int:
    """The value of an IR expression of whole numbers, names, ``+ - * // %``, ``min`` and ``max``.

    Raises:
        ValueError: it holds something else.
    """
    return _value(ast.parse(text, mode="eval").body, values)


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _BINARY:
            return _BINARY[type(operation)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in _CALLS:
            return _CALLS[name](*(_value(arg, values) for arg in args))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="T")), args=[ast.Constant() as inner]):
            return _value(inner, values)
    raise ValueError(f"cannot evaluate {ast.unparse(node)}")


def block_threads(artifact: Lowered) -> tuple[int, ...]:
    """Threads of a block of each launch."""
    counts: list[int] = []
    for launch in artifact.plan.launches:
        sizes: list[Any] = [size.evaluate() for size in launch.block if not size.variables]
        counts.append(sizes[0] * sizes[1] * sizes[2] if len(sizes) == 3 else -1)
    return tuple(counts)


def allocated(cuda: str, tile: str) -> str:
    """Where the kernel keeps a tile: ``shared``, ``fragment`` (an array of each thread), or nothing when not there."""
    name = re.escape(tile)
    if re.search(rf"void\* {name} = \(\(void\*\)\(\(char\*\)buf_dyn_shmem|__shared__ [^;]*\b{name}\[", cuda):
        return "shared"
    return "fragment" if re.search(rf"^\s*\w+ {name}\[\d+\];", cuda, re.M) else ""


def layout_of(artifact: Lowered, tile: str) -> Layout | None:
    """The layout that a tile got, or None."""
    return next((layout for layout in artifact.layouts if layout.tile == tile), None)


def at(layout: Layout, text: str, *indices: int) -> int:
    """A layout's ``index`` or ``thread`` for the element at the last ``indices``, in the first slot."""
    slots = (0,) * (len(layout.variables) - len(indices))
    return evaluated(text, dict(zip(layout.variables, (*slots, *indices), strict=True)))


def order_shown(step: Primitive, artifact: Lowered, loop: str) -> None:
    """Prove that the statements of a loop come in the order that the scheduled program notes for it.

    The lines that the code names inside each loop over the same variable are compared with the noted ones, by their
    first occurrence. Loops that lowering unrolled away prove nothing and are let pass.

    Raises:
        ScheduleNotApplied: every loop has them in another order.
    """
    label = re.escape(LINES + loop)
    noted = re.search(rf'"{label}": "([\d ]*)"', artifact.program_text)
    if noted is None:
        raise dropped(step, artifact, "the scheduled program notes no order")
    expected = noted[1].split()
    variable = re.escape(loop.partition("#")[0])
    found = []
    for start in re.finditer(rf"for \(int {variable}(?:_\d+)? = ", artifact.cuda):
        body = _block_at(artifact.cuda, start.end())
        found.append([line for line in dict.fromkeys(re.findall(r"#line (\d+) ", body)) if line in expected])
    if any(found) and not any(seen and seen == [line for line in expected if line in seen] for seen in found):
        raise dropped(step, artifact, f"lines in the order {', '.join(found[0])} instead of {', '.join(expected)}")


def _block_at(text: str, start: int) -> str:
    """The text of the first block in braces behind ``start``."""
    depth = 0
    begin = text.index("{", start)
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin : place + 1]
    return text[begin:]
