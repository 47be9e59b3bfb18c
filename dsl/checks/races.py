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


def check_races(launch: Launch) -> None:
    """No unguarded ``O[e] = f(O[e], ...)`` in ``T.Parallel`` whose ``e`` leaves out one of the loop variables.

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


def _visit(stmt: Any, variables: list[Any], reducers: set[int]) -> None:
    if isinstance(stmt, tirx.For):
        spread = int(stmt.kind) == PARALLEL and extent_of(stmt.extent) != 1
        _visit(stmt.body, [*variables, stmt.loop_var] if spread else variables, reducers)
    elif isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq:
            _visit(part, variables, reducers)
    elif isinstance(stmt, tirx.BufferStore) and hash(stmt.buffer.data) not in reducers:
        _check(stmt, variables)


def _check(store: Any, variables: list[Any]) -> None:
    if str(store.buffer.scope()) in _PRIVATE or not _reads_itself(store):
        return
    used = {str(hash(var)) for index in store.indices for var in tvm.tirx.analysis.undefined_vars(index)}
    missing = [variable for variable in variables if str(hash(variable)) not in used]
    if not missing:
        return
    name, index = str(store.buffer.name), ", ".join(map(str, store.indices))
    free = ", ".join(str(variable.name) for variable in missing)
    raise RaceError(
        f"every iteration over {free} updates {name}[{index}] at once: updates get lost", span=place(stmt_span(store)),
        remedy=f"reduce over {free} with T.reduce_sum (or _max, ...), use T.atomic_add({name}[{index}], value), or "
        "make the loop serial",
    )  # fmt: skip


def _reads_itself(store: Any) -> bool:
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        if isinstance(node, tirx.BufferLoad) and node.buffer.same_as(store.buffer):
            pairs = zip(node.indices, store.indices, strict=True)
            found = found or all(tvm.ir.structural_equal(left, right) for left, right in pairs)

    tirx.stmt_functor.post_order_visit(store.value, visit)
    return found
