"""Ordered loops whose trip count may be below their number of stages."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tilewright.dsl import Entry, Loop, Program, buffers, keep_span, tirx
from tilewright.dsl import rewrite as edit

from .arrangement import last_stage, without_order
from .dependence import statements_of
from .errors import IllegalStep


def short_runs_apart(program: Program) -> Program:
    """The program with its ordered loops kept for runs that are long enough, and the plain loops for shorter ones.

    TileLang's epilogue begins at the trip count: below the number of stages it repeats what the prologue did, and a
    statement between the first stage and the last would run twice::

        for k in T.serial(n): ...      ->      if n >= stages: for k in T.serial(n): ...   # in order
                                               if n < stages:  for k in T.serial(n): ...   # as written

    The plain loop has shared tiles of its own, since those of the ordered one get a slot for each stage.

    Raises:
        IllegalStep: a tile that the loop loads is used through a view, which would be left behind.
    """
    for entry in program.outline().loops:
        detail = entry.detail
        if not isinstance(detail, Loop) or isinstance(getattr(entry.node, "extent", None), tirx.IntImm):
            continue
        needed = last_stage(detail)
        if needed:
            program = _apart(program, entry, needed)
    return program


def _apart(program: Program, entry: Entry, needed: int) -> Program:
    own: dict[int, Any] = {}
    for tile, buffer in _loaded(entry).items():
        name = buffers.fresh_name(program, f"{buffer.name}_short")
        own[tile] = buffers.declared(buffer.shape, buffer.dtype, name, str(buffer.scope()))
    program = edit.replace(program, entry.node, functools.partial(_both, needed, own))
    for buffer in own.values():
        program = buffers.add_buffer(program, program.outline().grids[0].node, buffer)
    return program


def _loaded(entry: Entry) -> dict[int, Any]:
    """The buffers that the loop's loads fill, by the storage's key."""
    keys = {tile.key for statement in statements_of(entry) for tile in statement.loads}
    found: dict[int, Any] = {}

    def visit(node: Any) -> None:
        if not isinstance(node, (tirx.BufferLoad, tirx.BufferStore)) or hash(node.buffer.data) not in keys:
            return
        if not found.setdefault(hash(node.buffer.data), node.buffer).same_as(node.buffer):
            raise IllegalStep(
                f"loop {entry.label!r} may run fewer times than its statements have stages, and uses "
                f"{node.buffer.name}, a view of a tile that it loads",
                span=entry.span,
                remedy="leave the order out, or use the tile itself",
            )

    tirx.stmt_functor.post_order_visit(entry.node, visit)
    return found


def _both(needed: int, own: Mapping[int, Any], loop: Any) -> Any:
    plain = edit.with_loop(loop, annotations=without_order(dict(loop.annotations.items())))
    long = tirx.IfThenElse(loop.extent >= needed, loop, None)
    short = tirx.IfThenElse(loop.extent < needed, _renewed(plain, own), None)
    return tirx.SeqStmt([keep_span(long, loop), keep_span(short, loop)])


def _renewed(stmt: Any, own: Mapping[int, Any]) -> Any:
    """A copy of a statement with variables of its own, defined once in a function, and with other buffers."""
    renamed: dict[Any, Any] = {}

    def visit(node: Any) -> None:
        if isinstance(node, (tirx.For, tirx.Bind)):
            variable = node.loop_var if isinstance(node, tirx.For) else node.var
            renamed[variable] = tirx.Var(str(variable.name), str(variable.dtype))

    def post(node: Any) -> Any:
        if isinstance(node, tirx.For):
            return edit.with_loop(node, loop_var=renamed[node.loop_var])
        if isinstance(node, tirx.Bind):
            return keep_span(tirx.Bind(renamed[node.var], node.value), node)
        buffer = own.get(hash(node.buffer.data))
        if buffer is None:
            return None
        if isinstance(node, tirx.BufferLoad):
            return tirx.BufferLoad(buffer, node.indices)
        return keep_span(tirx.BufferStore(buffer, node.value, node.indices), node)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    kinds = ["tirx.For", "tirx.Bind", "tirx.BufferLoad", "tirx.BufferStore"]
    new = tirx.stmt_functor.ir_transform(stmt, None, post, kinds)
    return tirx.stmt_functor.substitute(new, renamed)
