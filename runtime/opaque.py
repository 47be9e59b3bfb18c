"""Kernel calls under tracers: opaque torch operators that name the tensors written.

``torch.compile``, ``make_fx``, ``torch.export`` and fake tensors see one operator: ``tilewright::run_kernel`` when the
kernel writes nothing but the outputs it returns, else ``tilewright::call_kernel``, after ``tilewright::kernel_outputs``
where there are such outputs too (torch cannot make an operator functional that both writes inputs and returns a list).
A kernel never vanishes from a trace and never runs on tensors without memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from tilewright.lowering import ScalarArgument

from . import diagnose
from .context import counters
from .errors import ArgumentCountError, TracingError
from .signature import Signature

if TYPE_CHECKING:
    from .kernel import Kernel

_known: weakref.WeakValueDictionary[str, Kernel] = weakref.WeakValueDictionary()
_traced: dict[str, Kernel] = {}  # a compiled graph holds only the key, so its kernels stay
_Library: Any = torch.library.Library  # torch leaves it untyped
_library = _Library("tilewright", "FRAGMENT")


@dataclass(frozen=True)
class Sorting:
    """How the inputs of a call are dealt into (written, read, scalars): one of 0, 1, 2 for each input; and the name."""

    name: str
    groups: tuple[int, ...]
    outputs: int


def sorting_of(signature: Signature) -> Sorting:
    """The dealing for one kernel."""
    groups = tuple(
        2 if isinstance(signature.plan.arguments[i], ScalarArgument) else 0 if i in signature.written else 1
        for i in signature.inputs
    )
    return Sorting(signature.plan.name, groups, len(signature.outputs))


def remember(kernel: Kernel) -> Kernel:
    """Let a trace find a kernel by its key while one of that key lives; the one found, which every equal one holds."""
    return _known.setdefault(kernel.key, kernel)


def traced_call(key: str, sorting: Sorting, args: tuple[Any, ...]) -> Any:
    """The call as one operator; shaped so that Dynamo can trace it."""
    if len(args) != len(sorting.groups):
        raise ArgumentCountError(f"{sorting.name} takes {len(sorting.groups)} arguments, got {len(args)}")
    dealt: list[list[Any]] = [[], [], []]
    for group, value in zip(sorting.groups, args, strict=True):
        dealt[group].append(value)
    written, read, scalars = dealt
    if sorting.outputs and not written:
        return _results(torch.ops.tilewright.run_kernel(key, read, scalars))
    outputs = torch.ops.tilewright.kernel_outputs(key, [*written, *read], scalars) if sorting.outputs else []
    torch.ops.tilewright.call_kernel(key, [*outputs, *written], read, scalars)
    return _results(outputs)


def _results(outputs: Sequence[torch.Tensor]) -> Any:
    if len(outputs) == 0:
        return None
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def is_traced(tensors: Sequence[torch.Tensor]) -> bool:
    """True when a dispatch mode is active or a tensor is a wrapper that records what is done with it."""
    if torch._C._len_torch_dispatch_stack() > 0:
        return True
    return any(type(t).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for t in tensors)


def refuse_functorch(name: str, signature: Signature, args: Sequence[Any]) -> None:
    """Refuse ``vmap``, ``grad`` and ``jvp`` of ``torch.func``.

    Raises:
        TracingError: an argument belongs to such a transform.
    """
    for argument, value in zip(signature.names, args, strict=True):
        if not isinstance(value, torch.Tensor):
            continue
        transform = (
            "torch.vmap"
            if torch._C._functorch.is_batchedtensor(value)
            else "torch.func.grad or jvp"
            if torch._C._functorch.is_gradtrackingtensor(value)
            else ""
        )
        if transform:
            raise TracingError(
                f"{argument} is a tensor of {transform}, and kernel {name} has no rule for that transform",
                remedy="wrap the kernel with register_operator(vmap=..., backward=...) or give it a batch dimension",
            )


def _find(key: str) -> Kernel:
    kernel = _traced.get(key) or _known.get(key)
    if kernel is None:
        raise TracingError(
            f"the compiled graph calls kernel {key[:12]}, which this process has not made",
            remedy="compile the kernel before the graph runs",
        )
    _traced[key] = kernel
    return kernel


def _collect(kernel: Kernel, groups: tuple[Sequence[Any], Sequence[Any], Sequence[Any]]) -> list[Any]:
    sources = [iter(group) for group in groups]
    return [next(sources[group]) for group in sorting_of(kernel.signature).groups]


def _run(key: str, read: Sequence[torch.Tensor], scalars: Sequence[Any]) -> list[torch.Tensor]:
    kernel = _find(key)
    counters.add("traced_calls")
    result = kernel.execute(_collect(kernel, ((), read, scalars)))
    return list(result) if isinstance(result, tuple) else [result]


def _call(key: str, written: Sequence[torch.Tensor], read: Sequence[torch.Tensor], scalars: Sequence[Any]) -> None:
    kernel = _find(key)
    counters.add("traced_calls")
    count = len(kernel.out_idx)
    kernel.execute(_collect(kernel, (written[count:], read, scalars)), outputs=written[:count])


def _call_fake(key: str, written: Sequence[torch.Tensor], read: Sequence[torch.Tensor], scalars: Sequence[Any]) -> None:
    kernel = _find(key)
    diagnose.check(kernel.signature, _collect(kernel, (written[len(kernel.out_idx) :], read, scalars)))


def _outputs(key: str, inputs: Sequence[torch.Tensor], scalars: Sequence[Any]) -> list[torch.Tensor]:
    kernel = _find(key)
    signature = kernel.signature
    written = sum(group == 0 for group in sorting_of(signature).groups)
    args = diagnose.check(signature, _collect(kernel, (inputs[:written], inputs[written:], scalars)))
    variables = signature.read(dict(zip(signature.inputs, args, strict=True)))
    device = next((value.device for value in args if isinstance(value, torch.Tensor)), kernel.own_device())
    return [diagnose.empty_output(signature.tensor(i), variables, device) for i in signature.outputs]


def _define(schema: str, implementation: Callable[..., Any], fake: Callable[..., Any]) -> None:
    name = schema.partition("(")[0]
    _library.define(schema)
    for key in ("CPU", "CUDA", "BackendSelect"):  # BackendSelect: calls without tensors
        _library.impl(name, implementation, key)
    torch.library.register_fake(f"tilewright::{name}", fake, lib=_library)


_define("run_kernel(str key, Tensor[] read, Scalar[] scalars) -> Tensor[]", _run, _outputs)
_define("call_kernel(str key, Tensor(a!)[] written, Tensor[] read, Scalar[] scalars) -> ()", _call, _call_fake)
_define("kernel_outputs(str key, Tensor[] inputs, Scalar[] scalars) -> Tensor[]", _outputs, _outputs)
