"""A reduction loop taken out of its launch: partial sums in a workspace, added up by a second launch.

Sums are added in one order whatever order blocks run in, and in float32, so the result does not depend on chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dsl import (
    GEMMS,
    Entry,
    Operation,
    Program,
    buffers,
    gemm_of,
    is_call,
    keep_span,
    language,
    operation_of,
    tirx,
    tvm,
)
from tilewright.dsl import rewrite as edit

from .errors import IllegalStep
from .handles import find, single_launch
from .launches import ADDED, Launch, gridded, launch_of, sequence
from .primitive import Primitive, written


@dataclass(frozen=True)
class Reduction:
    """A launch of the form: statements, a loop that only adds to ``total``, an epilogue that only needs ``total``."""

    entry: Entry
    launch: Launch
    before: tuple[Any, ...]
    loop: Any
    epilogue: tuple[Any, ...]
    total: Any

    @property
    def own(self) -> tuple[Any, ...]:
        """The buffers that the epilogue alone uses, ``total`` aside."""
        kept = [*_buffers(sequence([*self.before, self.loop])), self.total]
        allocated = [b for b in self.launch.block.alloc_buffers if not _among(b, kept)]
        return tuple(allocated)


def reduction_of(step: Primitive, program: Program, label: str) -> Reduction:
    """The launch's reduction over loop ``label``.

    Raises:
        UnknownHandle: no such loop.
        IllegalStep: the loop stands inside another, does more than add products to one accumulator, or what follows
            needs more than that accumulator.
    """
    loop = find(step, program, label, "loop")
    entry = single_launch(step, program)
    launch = launch_of(entry)
    positions = [at for at, statement in enumerate(launch.body) if statement.same_as(loop.node)]
    if not positions:
        raise _refused(step, loop, f"loop {label!r} is no statement of the kernel itself", "name the outermost loop")
    before, epilogue = launch.body[: positions[0]], launch.body[positions[0] + 1 :]
    total = _accumulator(step, loop)
    if not any(_clears(statement, total) for statement in before):
        raise _refused(step, loop, f"nothing clears {total.name} before loop {label!r}", "T.clear it right before")
    reduction = Reduction(entry, launch, before, loop.node, epilogue, total)
    _check_epilogue(step, loop, reduction)
    return reduction


def two_launches(
    step: Primitive,
    program: Program,
    reduction: Reduction,
    first: Callable[[Any], Any],
    workspace_shape: Sequence[int],
    parts: Callable[[Sequence[Any]], tuple[Any, Callable[[Any], Sequence[Any]]]],
) -> Program:
    """The program with partial sums and their addition as two launches.

    Args:
        step: the step that does it.
        program: the program.
        reduction: its reduction.
        first: workspace -> the first launch.
        workspace_shape: of the float32 workspace; its last dimensions are those of the accumulator.
        parts: block variables of the second launch -> how many parts there are, and for the number of a part the
            leading indices of the workspace.
    """
    name = buffers.fresh_name(program, f"{reduction.total.name}_parts")
    workspace = buffers.declared(workspace_shape, "float32", name, "global")
    launches = tirx.SeqStmt([first(workspace), _addition(step, reduction, workspace, parts)])
    program = edit.replace(program, reduction.entry.node, lambda _: launches)
    root = program.func.body.block
    return edit.replace(program, root, lambda old: edit.with_block(old, alloc_buffers=[*old.alloc_buffers, workspace]))


def stored(total: Any, workspace: Any, indices: Sequence[Any]) -> Any:
    """The copy of an accumulator to its place in the workspace."""
    return tirx.Evaluate(language.copy(_whole(total), _slot(workspace, indices, total)))


def without(reduction: Reduction) -> Any:
    """The launch's root block less the buffers that only the epilogue uses."""
    kept = [b for b in reduction.launch.block.alloc_buffers if not _among(b, reduction.own)]
    return edit.with_block(reduction.launch.block, alloc_buffers=kept)


def _addition(step: Primitive, reduction: Reduction, workspace: Any, parts: Any) -> Any:
    launch = reduction.launch
    variables = [tirx.Var(str(variable.name), "int32") for variable in launch.variables]
    total = buffers.declared(
        reduction.total.shape, reduction.total.dtype, str(reduction.total.name), str(reduction.total.scope())
    )
    count, place = parts(variables)
    part = tirx.Var("part", "int32")
    axes = [tirx.Var(f"e{axis}", "int32") for axis in range(len(total.shape))]
    value = tirx.BufferLoad(total, axes) + tirx.BufferLoad(workspace, [*place(part), *axes])
    body: Any = tirx.BufferStore(total, value, axes)
    for axis, extent in reversed(list(zip(axes, total.shape, strict=True))):
        body = tirx.For(axis, 0, extent, tirx.ForKind.PARALLEL, body)
    adding = tirx.For(part, 0, count, tirx.ForKind.SERIAL, body)
    swap = dict(zip(launch.variables, variables, strict=True))
    epilogue = [_moved(statement, swap, reduction.total, total) for statement in reduction.epilogue]
    statements = [tirx.Evaluate(language.clear(total)), adding, *epilogue]
    annotations = {str(k): v for k, v in launch.block.annotations.items() if str(k) == "tl.launch_threads"}
    block = edit.with_block(
        launch.block,
        alloc_buffers=[total, *reduction.own],
        annotations={**annotations, ADDED: tirx.StringImm(step.name)},
        body=keep_span(sequence(statements), reduction.loop),
    )
    grid = zip(variables, launch.extents, "xyz", strict=False)
    return gridded(launch, list(grid), block, fresh=True)


def _moved(statement: Any, variables: Any, old: Any, new: Any) -> Any:
    def post(node: Any) -> Any:
        if not node.buffer.same_as(old):
            return None
        if isinstance(node, tirx.BufferLoad):
            return tirx.BufferLoad(new, node.indices)
        return keep_span(tirx.BufferStore(new, node.value, node.indices), node)

    moved = tirx.stmt_functor.ir_transform(statement, None, post, ["tirx.BufferLoad", "tirx.BufferStore"])
    return keep_span(tirx.stmt_functor.substitute(moved, variables), statement)


def _accumulator(step: Primitive, loop: Entry) -> Any:
    totals: list[Any] = []
    for entry in loop.walk():
        operation = entry.detail
        if entry is loop or entry.kind in ("let", "attribute"):
            continue
        if not isinstance(operation, Operation):
            raise _refused(
                step, entry, f"loop {loop.label!r} does more than copy and multiply: {entry.label}",
                "only a loop that adds matrix products can be divided",
            )  # fmt: skip
        if operation.name in GEMMS and not gemm_of(operation).clear:
            totals.append(gemm_of(operation).c.buffer)
        elif operation.name != "copy" or operation.regions[1].scope == "global":
            raise _refused(
                step, entry, f"{entry.label} in loop {loop.label!r} does not add to an accumulator",
                "only a loop that adds matrix products can be divided",
            )  # fmt: skip
    if not totals or not all(total.same_as(totals[0]) for total in totals):
        raise _refused(
            step, loop, f"loop {loop.label!r} adds to {len(totals)} accumulators", "it has to add to exactly one"
        )
    return totals[0]


def _check_epilogue(step: Primitive, loop: Entry, reduction: Reduction) -> None:
    made = [*_buffers(sequence([*reduction.before, reduction.loop])), *(
        b for b in reduction.launch.block.alloc_buffers if str(b.scope()) == "local.var"
    )]  # fmt: skip
    made = [b for b in made if str(b.scope()) != "global" and not b.same_as(reduction.total)]
    for statement in reduction.epilogue:
        used = [b for b in _buffers(statement) if _among(b, made)]
        bound = [s.var for s in reduction.before if isinstance(s, tirx.Bind)]
        free = [v for v in bound if any(v.same_as(u) for u in _variables(statement))]
        if used or free:
            name = used[0].name if used else free[0].name
            raise _refused(
                step, loop, f"what follows loop {loop.label!r} needs {name}, which is made before its end",
                f"only {reduction.total.name} reaches the second launch",
            )  # fmt: skip
    if not reduction.epilogue or not any(_among(reduction.total, _buffers(s)) for s in reduction.epilogue):
        raise _refused(step, loop, f"nothing stores {reduction.total.name} after loop {loop.label!r}", "store it")


def _refused(step: Primitive, entry: Entry, what: str, remedy: str) -> IllegalStep:
    return IllegalStep(f"{written(step)}: {what}", span=entry.span, remedy=remedy)


def _clears(statement: Any, total: Any) -> bool:
    if not is_call(statement):
        return False
    operation = operation_of(statement.value)
    return operation.name == "clear" and operation.regions[0].buffer.same_as(total)


def _buffers(stmt: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, (tirx.BufferLoad, tirx.BufferStore)) and not _among(node.buffer, found):
            found.append(node.buffer)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return found


def _variables(stmt: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Var):
            found.append(node)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return found


def _among(buffer: Any, others: Sequence[Any]) -> bool:
    return any(buffer.same_as(other) for other in others)


def _whole(buffer: Any) -> Any:
    return tirx.BufferRegion(buffer, [tvm.ir.Range.from_min_extent(0, extent) for extent in buffer.shape])


def _slot(workspace: Any, indices: Sequence[Any], total: Any) -> Any:
    front = [tvm.ir.Range.from_min_extent(index, 1) for index in indices]
    back = [tvm.ir.Range.from_min_extent(0, extent) for extent in total.shape]
    return tirx.BufferRegion(workspace, [*front, *back])
