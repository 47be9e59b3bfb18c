"""A proxy fence between ``cp.async`` and the warpgroup instructions that read what it wrote.

``cp.async`` writes shared memory through the generic proxy, ``wgmma`` reads it through the asynchronous one, and PTX
wants ``fence.proxy.async`` between them (PTX ISA, asynchronous proxy). TileLang 0.1.15 adds that fence behind stores of
threads, not behind ``cp.async``. Right before code generation, in kernels that have both::

    wait_group(n)   ->   wait_group(n)
                         fence_proxy_async()
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.ir.instrument import pass_instrument

_BEFORE = "tl.LowerIntrin"  # the last pass before the CUDA code generator
_WAIT = "tirx.ptx_wait_group"
_FENCE = "tl.fence_proxy_async"
_READER = "wgmma"


@pass_instrument
class AsyncFence:
    """The repair as a pass instrument; ``count`` is how many fences it added."""

    name = "async_fence"

    def __init__(self) -> None:
        self.count = 0

    def run_before_pass(self, module: Any, info: Any) -> None:
        """Rewrite the functions of the module in place when the code generator is next."""
        if str(info.name) != _BEFORE:
            return
        for variable, func in list(module.functions.items()):
            if isinstance(func, tirx.PrimFunc) and _reads_asynchronously(func.body):
                body, count = fenced(func.body)
                self.count += count
                if count:
                    module.update_func(variable, func.with_body(body))


def fenced(body: Any) -> tuple[Any, int]:
    """The statement with a fence behind every wait for ``cp.async``, and how many those are."""
    count = 0

    def post(node: Any) -> Any:
        nonlocal count
        if not isinstance(node.value, tirx.Call) or _name(node.value) != _WAIT:
            return None
        count += 1
        return tirx.SeqStmt([node, tirx.Evaluate(tirx.Call("void", ir.Op.get(_FENCE), []))])

    return tirx.stmt_functor.ir_transform(body, None, post, ["tirx.Evaluate"]), count


def _reads_asynchronously(body: Any) -> bool:
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        if isinstance(node, tirx.Call):
            found = found or _READER in _name(node)

    tirx.stmt_functor.post_order_visit(body, visit)
    return found


def _name(call: Any) -> str:
    return str(getattr(call.op, "name", ""))
