"""Torch operators made of kernels: schema, implementation, fake kernel, gradient and batching rule in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .errors import GradientError, OptionError, TracingError

_NAMESPACE = "tilewright"
_Library: Any = torch.library.Library  # torch leaves it untyped
_library = _Library(_NAMESPACE, "FRAGMENT")
_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True)
class TorchOperator:
    """A registered operator; ``op`` is ``torch.ops.tilewright.<name>``.

    A call on plain tensors outside every tracer and transform, with no gradient to record, goes straight to the
    implementation; any other call, and one that writes its inputs, goes through torch's dispatcher.
    """

    name: str
    op: Any
    implementation: Callable[..., Any]
    writes: bool = False

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the operator."""
        if (
            torch.compiler.is_dynamo_compiling()
            or self.writes
            or not _is_plain(args)
            or not _is_plain(tuple(keywords.values()))
        ):
            return self.op(*args, **keywords)
        return self.implementation(*args, **keywords)


def register_operator(
    name: str,
    schema: str,
    implementation: Callable[..., Any],
    *,
    fake: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
    vmap: Callable[..., Any] | None = None,
) -> TorchOperator:
    """Register ``torch.ops.tilewright.<name>`` for CPU and CUDA tensors.

    Args:
        name: the operator's name.
        schema: arguments and results in torch's schema language, such as ``(Tensor a, float s=1.0) -> Tensor``; what
            the implementation writes is marked ``Tensor(x!)``.
        implementation: computes the result; its defaults equal those of the schema.
        fake: the same arguments -> results without data, of the right shape, dtype and strides.
        backward: ``backward(ctx, *grads)`` -> one gradient or None for each argument. Without it a tensor that
            requires a gradient raises ``GradientError``.
        setup_context: ``setup_context(ctx, inputs, output)`` saves what ``backward`` needs.
        vmap: ``vmap(info, in_dims, *args)`` -> (result, out_dims), as for ``torch.library.register_vmap``; without it
            ``torch.vmap`` runs the operator once for each element of the batch.

    Raises:
        OptionError: the name is taken, the schema is malformed, or an operator that writes inputs has a backward.
    """
    if setup_context is not None and backward is None:
        raise OptionError(f"{name}: setup_context was given without backward", remedy="give backward too")
    try:
        _library.define(f"{name}{schema}")
    except RuntimeError as error:
        raise OptionError(
            f"{name}: torch refuses the schema {schema!r}: {' '.join(str(error).split())[:160]}",
            remedy="correct it, or use another name",
        ) from None
    qualified = f"{_NAMESPACE}::{name}"
    for key in ("CPU", "CUDA"):
        _library.impl(name, implementation, key)
    torch.library.register_fake(qualified, fake, lib=_library)
    op = getattr(torch.ops.tilewright, name).default
    written = _written(op)
    if written and backward is not None:
        raise OptionError(
            f"{name} writes {', '.join(written)} and has a backward", remedy="return a new tensor instead"
        )
    if backward is not None:
        torch.library.register_autograd(qualified, backward, setup_context=setup_context, lib=_library)
    else:
        _library.impl(name, _refuse_gradient(name, op), "Autograd", with_keyset=True)
    if written:
        _library.impl(name, _count_writes(op, written), "ADInplaceOrView", with_keyset=True)
    torch.library.register_vmap(qualified, vmap or _batch_loop(name, op, written), lib=_library)
    return TorchOperator(name, op, implementation, bool(written))


def _is_plain(values: tuple[Any, ...]) -> bool:
    for value in values:
        if isinstance(value, torch.Tensor) and type(value) not in _PLAIN:
            return False
        if isinstance(value, list | tuple) and not _is_plain(tuple(value)):
            return False
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.maybe_current_level() is not None:
        return False
    return not (torch.is_grad_enabled() and torch._C._any_requires_grad(*values))


def _written(op: Any) -> tuple[str, ...]:
    return tuple(a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write)


def _refuse_gradient(name: str, op: Any) -> Callable[..., Any]:
    names = [argument.name for argument in op._schema.arguments]

    def forward(keys: Any, *args: Any, **keywords: Any) -> Any:
        if torch.is_grad_enabled():
            for argument, value in [*zip(names, args, strict=False), *keywords.items()]:
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    raise GradientError(
                        f"{argument} requires a gradient, and operator {name} has no backward",
                        remedy=f"pass {argument}.detach() or call under torch.no_grad()",
                    )
        with torch._C._AutoDispatchBelowAutograd():
            return op.redispatch(keys & torch._C._after_autograd_keyset, *args, **keywords)

    return forward


def _count_writes(op: Any, written: tuple[str, ...]) -> Callable[..., Any]:
    names = [argument.name for argument in op._schema.arguments]

    def forward(keys: Any, *args: Any, **keywords: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **keywords}
        with torch._C._AutoDispatchBelowADInplaceOrView():
            result = op.redispatch(keys & torch._C._after_ADInplaceOrView_keyset, *args, **keywords)
        for name in written:
            value = given.get(name)
            if value is not None:
                torch.autograd.graph.increment_version(value)
        return result

    return forward


def _batch_loop(name: str, op: Any, written: tuple[str, ...]) -> Callable[..., Any]:
    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any, **keywords: Any) -> Any:
        if written:
            raise TracingError(
                f"operator {name} writes {', '.join(written)} and has no rule for torch.vmap",
                remedy="give register_operator(vmap=...), or call it once for the whole batch",
            )
        results = [
            op(*(_element(value, dim, index) for value, dim in zip(args, in_dims, strict=True)), **keywords)
            for index in range(info.batch_size)
        ]
        if isinstance(results[0], tuple | list):
            stacked = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
            return stacked, (0,) * len(stacked)
        return torch.stack(results), 0

    return rule


def _element(value: Any, dim: Any, index: int) -> Any:
    if isinstance(value, list | tuple):
        return [
            _element(part, part_dim, index) for part, part_dim in zip(value, dim or [None] * len(value), strict=True)
        ]
    return value if dim is None else value.select(dim, index)
