"""Checked edits of a PrimFunc: typed annotations, wrapping, replacing; spans are kept, nothing is ignored silently.

Each edit takes a ``Program`` and returns a new one. A statement is named by its node, as ``Outline.find`` gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ._tilelang import tirx
from .annotations import BLOCK, CALL, LOOP, PER_STATEMENT, Converter, typed
from .errors import AnnotationError
from .spans import keep_span, place, stmt_span
from .tree import is_launch_root

if TYPE_CHECKING:
    from .program import Program


def replace(program: Program, node: Any, new: Callable[[Any], Any]) -> Program:
    """Replace one statement.

    Args:
        program: the program.
        node: the statement, found by identity.
        new: the old statement (its parts already rewritten) -> the statement to put there.

    Raises:
        AnnotationError: ``node`` is not part of this program, e.g. it comes from an outline taken before another edit.
    """
    hits = 0
    failure: Exception | None = None

    def post(stmt: Any) -> Any:
        nonlocal hits, failure
        if not stmt.same_as(node):
            return None
        hits += 1
        try:
            return keep_span(new(stmt), stmt)
        except Exception as error:  # an exception that crosses the walk in C++ loses its type
            failure = error
            return None

    body = tirx.stmt_functor.ir_transform(program.func.body, None, post, [f"tirx.{type(node).__name__}"])
    if failure is not None:
        raise failure
    if hits != 1:
        raise AnnotationError(
            f"the {type(node).__name__} to rewrite occurs {hits} times in {program.name}", span=place(stmt_span(node)),
            remedy="look it up again in the outline of the program being rewritten",
        )  # fmt: skip
    return program.with_func(program.func.with_body(body))


def annotate_loop(program: Program, loop: Any, values: Mapping[str, object]) -> Program:
    """Set annotations of a loop (``num_stages``, ``software_pipeline_order``, ...); None removes one.

    Raises:
        AnnotationError: an unknown key, a wrong value, or a list whose length is not the number of statements.
    """
    where = place(stmt_span(loop))
    count = len(statements(loop.body))
    for key, value in values.items():
        if key in PER_STATEMENT and isinstance(value, (list, tuple)) and len(value) != count:
            raise AnnotationError(
                f"annotation {key!r} needs one entry per statement of the loop", span=where,
                values={"statements": count, "entries": len(value)},
            )  # fmt: skip
    merged = _merged(loop.annotations, values, LOOP, where)
    return replace(program, loop, lambda old: with_loop(old, annotations=merged))


def annotate_block(program: Program, grid: Any, values: Mapping[str, object]) -> Program:
    """Set annotations of the root block under a grid (``tl.launch_threads``, ``cluster_dims``, ...); None removes one.

    Raises:
        AnnotationError: an unknown key or a wrong value.
    """
    block = root_block(grid)
    merged = _merged(block.annotations, values, BLOCK, place(stmt_span(grid)))
    return replace(program, block, lambda old: with_block(old, annotations=merged))


def annotate_call(program: Program, stmt: Any, values: Mapping[str, object]) -> Program:
    """Set annotations of a tile operation (``disable_tma``, ``eviction_policy``, ...); None removes one.

    Raises:
        AnnotationError: an unknown key or a wrong value.
    """
    merged = _merged(stmt.value.annotations, values, CALL, place(stmt_span(stmt)))

    def rebuilt(old: Any) -> Any:
        call = old.value
        return tirx.Evaluate(tirx.Call(call.dtype, call.op, list(call.args), annotations=merged))

    return replace(program, stmt, rebuilt)


def rasterize(program: Program, grid: Any, order: str, panel: int) -> Program:
    """Visit blocks in panels of ``panel`` rows or columns (``order``), for reuse in L2.

    Raises:
        AnnotationError: another order, or a panel below one.
    """
    if order not in ("row", "column"):
        raise AnnotationError(f"rasterization order {order!r} is unknown", remedy="use 'row' or 'column'")
    if isinstance(panel, bool) or not isinstance(panel, int) or panel < 1:
        raise AnnotationError(f"rasterization panel = {panel!r} is no positive whole number")
    name = "rasterization2DRow" if order == "row" else "rasterization2DColumn"
    value = tirx.call_intrin("handle", "tirx.tvm_tuple", tirx.StringImm(name), tirx.IntImm("int32", panel))
    return wrap_root(program, grid, "threadblock_swizzle_pattern", value)


def min_blocks(program: Program, grid: Any, count: int) -> Program:
    """Ask for at least ``count`` resident blocks per multiprocessor (``__launch_bounds__``).

    Raises:
        AnnotationError: ``count`` is no positive whole number up to 32.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 32:
        raise AnnotationError(f"min_blocks = {count!r} must be a whole number between 1 and 32")
    return wrap_root(program, grid, "tl.min_blocks_per_sm", tirx.IntImm("int32", count))


def wrap_root(program: Program, grid: Any, key: str, value: Any) -> Program:
    """Put an attribute around the root block's body, in place of one with the same key.

    Raises:
        AnnotationError: ``value`` is no TIR expression.
    """
    if not isinstance(value, tirx.PrimExpr):
        raise AnnotationError(f"attribute {key!r} must be a TIR expression", values={key: type(value).__name__})
    block = root_block(grid)

    def rebuilt(old: Any) -> Any:
        inner = old.body
        if isinstance(inner, tirx.AttrStmt) and str(inner.attr_key) == key:
            inner = inner.body
        return with_block(old, body=keep_span(tirx.AttrStmt(None, key, value, inner), old))

    return replace(program, block, rebuilt)


def root_block(grid: Any) -> Any:
    """The root block of a launch, given its outermost grid loop.

    Raises:
        AnnotationError: ``grid`` is no launch.
    """
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.SBlock) and is_launch_root(node):
            found.append(node)

    tirx.stmt_functor.post_order_visit(grid, visit)
    if not found:
        raise AnnotationError("this statement launches no blocks", span=place(stmt_span(grid)))
    return found[-1]


def statements(body: Any) -> list[Any]:
    """The statements of a loop or block body, in order."""
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def with_loop(loop: Any, **changes: Any) -> Any:
    """A copy of a For with some of its fields (``annotations``, ``body``, ``kind``, ``extent``) changed; span kept."""
    fields: dict[str, Any] = {
        name: getattr(loop, name)
        for name in ("loop_var", "min", "extent", "kind", "body", "thread_binding", "annotations", "step")
    }
    return keep_span(tirx.For(**{**fields, **changes}), loop)


def with_block(block: Any, **changes: Any) -> Any:
    """A copy of an SBlock with some of its fields (``annotations``, ``body``, ``alloc_buffers``) changed; span kept."""
    names = (
        "iter_vars",
        "reads",
        "writes",
        "name_hint",
        "body",
        "init",
        "alloc_buffers",
        "match_buffers",
        "annotations",
    )
    fields: dict[str, Any] = {name: getattr(block, name) for name in names}
    return keep_span(tirx.SBlock(**{**fields, **changes}), block)


def _merged(old: Any, values: Mapping[str, object], keys: Mapping[str, Converter], where: Any) -> dict[str, Any]:
    merged: dict[str, Any] = {str(key): value for key, value in old.items()}
    for key, value in values.items():
        if value is None:
            typed_key_only(keys, key, where)
            merged.pop(key, None)
        else:
            merged[key] = typed(keys, key, value, where)
    return merged


def typed_key_only(keys: Mapping[str, Converter], key: str, where: Any) -> None:
    """Refuse an unknown key of an annotation to remove.

    Raises:
        AnnotationError: the key is unknown.
    """
    if key not in keys:
        typed(keys, key, None, where)


def safe_annotations(func: Any) -> Any:
    """``func`` with every loop annotation of the type TileLang needs; the same object when nothing had to change.

    Raises:
        AnnotationError: a value that cannot be converted, e.g. a text for ``num_stages``.
    """
    loops: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.For):
            loops.append(node)

    tirx.stmt_functor.post_order_visit(func.body, visit)
    fixed: dict[int, dict[str, Any]] = {}
    for loop in loops:
        raw = {str(key): value for key, value in loop.annotations.items() if _is_raw(key, value)}
        if raw:
            fixed[hash(loop)] = _merged(loop.annotations, raw, LOOP, place(stmt_span(loop)))
    if not fixed:
        return func

    def post(node: Any) -> Any:
        found = [loop for loop in loops if hash(loop) in fixed and loop.loop_var.same_as(node.loop_var)]
        return with_loop(node, annotations=fixed[hash(found[0])]) if found else None

    new = func.with_body(tirx.stmt_functor.ir_transform(func.body, None, post, ["tirx.For"]))
    from .spans import keep_func_span

    return keep_func_span(new, func)


def _is_raw(key: object, value: object) -> bool:
    """Whether a loop annotation that must be a whole number is something else."""
    if str(key) not in ("num_stages", "pragma_unroll_factor", "coalesced_width", "tl_pipelined_num_stages"):
        return False
    return not isinstance(value, tirx.IntImm) or int(value.value) < 1
