"""Turns of consumer warpgroups: a ring of named barriers around a part of a loop, so that one runs it at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.dsl import Entry, Program, keep_span, tirx
from tilewright.dsl import language as T
from tilewright.dsl import rewrite as edit

from .errors import IllegalStep, UnknownHandle
from .primitive import Primitive, written
from .roles import CONSUMER, GROUP, JOIN, OP_ID, SCHEDULE

FIRST_BARRIER = 8  # TileLang numbers its own from 1
WAIT, PASS = "take turn", "pass turn"


@dataclass(frozen=True, eq=False)
class Turn:
    """Where turns begin and end among what the consumers of a loop run."""

    schedule: Any
    scope: Any
    begin: int
    end: int
    groups: int


def turn_of(step: Primitive, grid: Entry, loop: Entry, first: str, last: str) -> Turn:
    """The turn from ``first`` to ``last`` in the consumers' part of a loop.

    Raises:
        IllegalStep: there are no roles, one consumer alone, turns already, or ``last`` runs before ``first``.
        UnknownHandle: the consumers of the loop run nothing of this name.
    """
    block = edit.root_block(grid.node)
    schedule = block.annotations.get(SCHEDULE)
    if schedule is None:
        raise IllegalStep(
            f"{written(step)}: {loop.label!r} has no roles that could take turns",
            span=loop.span,
            remedy="put specialize() before this step",
        )
    scope = next((scope for scope in schedule.scopes if str(scope.id) == loop.label), None)
    role = next(role for role in schedule.roles if str(role.name) == CONSUMER)
    groups = (int(role.warp_hi) - int(role.warp_lo)) * 32 // GROUP
    if scope is None or groups < 2:
        what = (
            "is no loop of the roles"
            if scope is None
            else "is run by one consumer, which has no other to take turns with"
        )
        raise IllegalStep(f"{written(step)}: {loop.label!r} {what}", span=loop.span, remedy="specialize(2) and more do")
    names = [str(op.id) if isinstance(op, T.WSOpRef) else "" for op in scope.bodies[CONSUMER]]
    if WAIT in names:
        raise IllegalStep(f"{written(step)}: consumers take turns in {loop.label!r} already", span=loop.span)
    begin, end = (_place(step, loop, names, label) for label in (first, last))
    if end < begin:
        raise IllegalStep(
            f"{written(step)}: {last!r} runs before {first!r}",
            span=loop.span,
            values={"order": ", ".join(filter(None, names))},
            remedy="exchange them",
        )
    return Turn(schedule, scope, begin, end, groups)


def _place(step: Primitive, loop: Entry, names: list[str], label: str) -> int:
    found = [place for place, name in enumerate(names) if label in name.split(JOIN)]
    if len(found) != 1:
        raise UnknownHandle(
            f"{written(step)}: the consumers of {loop.label!r} run {label!r} {len(found)} times",
            span=loop.span,
            remedy=f"they run {', '.join(filter(None, names))}",
        )
    return found[0]


def with_turns(program: Program, grid: Entry, loop: Entry, turn: Turn) -> Program:
    """The program whose consumers wait for their turn at its begin and pass it on at its end."""
    body = list(turn.scope.bodies[CONSUMER])
    body.insert(turn.end + 1, T.WSOpRef(PASS))
    body.insert(turn.begin, T.WSOpRef(WAIT))
    bodies = {str(role): list(steps) for role, steps in turn.scope.bodies.items()} | {CONSUMER: body}
    new = T.WSScope(loop.label, bodies)
    scopes = [new if scope.same_as(turn.scope) else scope for scope in turn.schedule.scopes]
    old = turn.schedule
    schedule = T.WSSchedule(
        num_warps=int(old.num_warps), roles=list(old.roles), pipelines=list(old.pipelines), scopes=scopes
    )
    thread = _thread(grid.node)
    extra = _statements(loop.node, thread, turn.groups)

    def rebuilt(node: Any) -> Any:
        return edit.with_loop(node, body=tirx.SeqStmt([*edit.statements(node.body), *extra]))

    program = edit.replace(program, loop.node, rebuilt)
    return edit.annotate_block(program, program.outline().grids[0].node, {SCHEDULE: schedule})


def _statements(loop: Any, thread: Any, groups: int) -> tuple[Any, ...]:
    group, threads = tirx.floordiv(thread, GROUP), 2 * GROUP
    last = group == groups - 1
    opened = _when(tirx.And(last, loop.loop_var == loop.min), _arrive(FIRST_BARRIER, threads))
    wait = tirx.SeqStmt([opened, tirx.Evaluate(T.sync_threads(FIRST_BARRIER + group, threads))])
    following = FIRST_BARRIER + tirx.floormod(group + 1, groups)
    ends = tirx.And(last, loop.loop_var == loop.min + loop.extent - 1)
    passed = _when(tirx.Not(ends), _arrive(following, threads))
    return tuple(
        keep_span(tirx.AttrStmt(None, OP_ID, tirx.StringImm(name), body), loop)
        for name, body in ((WAIT, wait), (PASS, passed))
    )


def _arrive(barrier: Any, threads: int) -> Any:
    return tirx.Evaluate(T.named_barrier_arrive(barrier, threads))


def _when(condition: Any, body: Any) -> Any:
    return tirx.IfThenElse(condition, body, None)


def _thread(grid: Any) -> Any:
    """The variable of the first thread index of a launch."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        value: Any = node.value if isinstance(node, tirx.Bind) else None
        is_index = isinstance(value, tirx.Call) and str(value.op.name) == "tl.launch_thread_idx"
        if is_index and int(value.args[0]) == 0:
            found.append(node.var)

    tirx.stmt_functor.post_order_visit(grid, visit)
    return found[0]
