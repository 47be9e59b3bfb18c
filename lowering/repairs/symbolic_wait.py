"""Constant counts for ``cp.async.wait_group`` in pipeline epilogues.

With dynamic shapes and three stages or more TileLang 0.1.15 leaves the epilogue of a cp.async pipeline as a loop and
writes the wait count in terms of its variable; its code generator takes constants only ("Downcast from tirx.Sub to
ir.IntImm failed"). Right before code generation::

    for k in unroll(2):           for k in unroll(2):
        wait_group(1 - k)   ->        if k == 0: wait_group(1)
        ...                           else: wait_group(0)
                                      ...

A count that depends on anything but a loop of constant extent becomes 0, which waits for everything.
"""

from __future__ import annotations

from typing import Any

from tvm import arith, tirx
from tvm.ir.instrument import pass_instrument

_BEFORE = "tl.LowerIntrin"  # the last pass before the CUDA code generator
_WAIT = "tirx.ptx_wait_group"
_LARGEST_EXTENT = 64


@pass_instrument
class SymbolicWait:
    """The repair as a pass instrument; ``count`` is how many waits it rewrote."""

    name = "symbolic_wait"

    def __init__(self) -> None:
        self.count = 0

    def run_before_pass(self, module: Any, info: Any) -> None:
        """Rewrite the functions of the module in place when the code generator is next."""
        if str(info.name) != _BEFORE:
            return
        for variable, func in list(module.functions.items()):
            if isinstance(func, tirx.PrimFunc) and _symbolic_waits(func.body):
                self.count += len(_symbolic_waits(func.body))
                module.update_func(variable, func.with_body(constant_waits(func.body)))


def constant_waits(body: Any) -> Any:
    """The statement with every symbolic wait count made constant."""
    body = tirx.stmt_functor.ir_transform(body, None, _loop, ["tirx.For"])
    return tirx.stmt_functor.ir_transform(body, None, _wait_for_all, ["tirx.Evaluate"])


def _symbolic_waits(body: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if _is_symbolic_wait(node):
            found.append(node)

    tirx.stmt_functor.post_order_visit(body, visit)
    return found


def _is_symbolic_wait(node: Any) -> bool:
    return (
        isinstance(node, tirx.Evaluate)
        and isinstance(node.value, tirx.Call)
        and str(getattr(node.value.op, "name", "")) == _WAIT
        and not isinstance(node.value.args[0], tirx.IntImm)
    )


def _loop(loop: Any) -> Any:
    if not isinstance(loop.extent, tirx.IntImm) or int(loop.extent) > _LARGEST_EXTENT:
        return None
    waits = [wait for wait in _symbolic_waits(loop.body) if _values(wait, loop) is not None]
    if not waits:
        return None

    def choose(node: Any) -> Any:
        values = _values(node, loop) if _is_symbolic_wait(node) else None
        return None if values is None else _chain(node, loop, values)

    body = tirx.stmt_functor.ir_transform(loop.body, None, choose, ["tirx.Evaluate"])
    return tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations, loop.step
    )


def _values(wait: Any, loop: Any) -> list[int] | None:
    """The count in each iteration, or None when it depends on more than the loop's variable."""
    analyzer = arith.Analyzer()
    values: list[int] = []
    for index in range(int(loop.extent)):
        place = {loop.loop_var: loop.min + tirx.IntImm(loop.loop_var.dtype, index)}
        value = analyzer.simplify(tirx.stmt_functor.substitute(wait.value.args[0], place))
        if not isinstance(value, tirx.IntImm):
            return None
        values.append(max(0, int(value)))
    return values


def _chain(wait: Any, loop: Any, values: list[int]) -> Any:
    statement = _wait(wait, values[-1])
    for index in reversed(range(len(values) - 1)):
        condition = tirx.EQ(loop.loop_var, loop.min + tirx.IntImm(loop.loop_var.dtype, index))
        statement = tirx.IfThenElse(condition, _wait(wait, values[index]), statement)
    return statement


def _wait_for_all(node: Any) -> Any:
    return _wait(node, 0) if _is_symbolic_wait(node) else None


def _wait(wait: Any, count: int) -> Any:
    return tirx.Evaluate(tirx.Call(wait.value.dtype, wait.value.op, [tirx.IntImm("int32", count)]))
