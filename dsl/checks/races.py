"""Iterations of a parallel loop that update one element: a lost update on every run."""

from __future__ import annotations

from typing import Any

from .._tilelang import tirx, tvm
from ..errors import RaceError
from ..operations import extent_of
from ..spans import place, stmt_span
from ..tree import PARALLEL, Loop
from ._context import Launch

_PRIVATE = ("local", "local.var", "local.reducer")
_MOST_VALUES = 256  # of one loop variable, tried for two that give the same element


def check_races(launch: Launch) -> None:
    """No unguarded ``O[e] = f(O[e], ...)`` in ``T.Parallel`` whose ``e`` is the same in two iterations.

    Seen are an ``e`` that leaves out a loop variable, and one that gives the same for two of the first 256 values of a
    variable, the others being 0, such as ``i // 2`` and ``i % 8``.

    Raises:
        RaceError: there is one.
    """
    reducers = {hash(data) for data in _reducers(launch)}
    for placed in launch.placed():
        loop = placed.entry.detail
        if isinstance(loop, Loop) and loop.kind == "parallel":
            _visit(placed.entry.node, [], reducers)


def _reducers(launch: Launch) -> list[Any]:
    """Data variables of reducers, whose updates TileLang combines itself."""
    info: Any = launch.detail.annotations.get("reducer_info", {})
    return list(info.keys())


def _visit(stmt: Any, loops: list[Any], reducers: set[int]) -> None:
    if isinstance(stmt, tirx.For):
        spread = int(stmt.kind) == PARALLEL and extent_of(stmt.extent) != 1
        _visit(stmt.body, [*loops, stmt] if spread else loops, reducers)
    elif isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq:
            _visit(part, loops, reducers)
    elif isinstance(stmt, tirx.BufferStore) and hash(stmt.buffer.data) not in reducers:
        _check(stmt, loops)


def _check(store: Any, loops: list[Any]) -> None:
    if str(store.buffer.scope()) in _PRIVATE or not _reads_itself(store):
        return
    used = {str(hash(var)) for index in store.indices for var in tvm.tirx.analysis.undefined_vars(index)}
    missing = [loop for loop in loops if str(hash(loop.loop_var)) not in used]
    folded = missing or [loop for loop in loops if _folds(store.indices, loop, loops)]
    if not folded:
        return
    name, index = str(store.buffer.name), ", ".join(map(str, store.indices))
    free = ", ".join(str(loop.loop_var.name) for loop in folded)
    every = "every iteration" if missing else "more than one iteration"
    raise RaceError(
        f"{every} over {free} updates {name}[{index}] at once: updates get lost", span=place(stmt_span(store)),
        remedy=f"reduce over {free} with T.reduce_sum (or _max, ...), use T.atomic_add({name}[{index}], value), or "
        "make the loop serial",
    )  # fmt: skip


def _folds(indices: Any, loop: Any, loops: list[Any]) -> bool:
    """Whether two values of the loop's variable give the same element while the other loops stand at 0."""
    extent = extent_of(loop.extent)
    if not isinstance(extent, int):
        return False
    analyzer, seen = tvm.arith.Analyzer(), set()
    at = {other.loop_var: tirx.const(0, other.loop_var.dtype) for other in loops}
    for value in range(min(extent, _MOST_VALUES)):
        at[loop.loop_var] = tirx.const(value, loop.loop_var.dtype)
        element = tuple(str(analyzer.simplify(tirx.stmt_functor.substitute(index, at))) for index in indices)
        if element in seen:
            return True
        seen.add(element)
    return False


def _reads_itself(store: Any) -> bool:
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        if isinstance(node, tirx.BufferLoad) and node.buffer.same_as(store.buffer):
            pairs = zip(node.indices, store.indices, strict=True)
            found = found or all(tvm.ir.structural_equal(left, right) for left, right in pairs)

    tirx.stmt_functor.post_order_visit(store.value, visit)
    return found
