"""Calling a user's ``reference`` by the names of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .compare import Comparison, as_tuple, compare, own_result, widened
from .errors import BadFile, unknown


def judge(reference: Callable[..., Any], named: Mapping[str, Any], written: Sequence[Any]) -> Comparison:
    """Compares what a kernel wrote with the reference, in float64 and in the dtypes of the kernel.

    Args:
        reference: its parameters are taken from ``named``; it returns one value for each of ``written``, in order.
        named: arguments of the kernel before it ran, and the settings.
        written: tensors that the kernel wrote.

    Raises:
        UnknownName: a parameter of the reference that is in ``named`` under no name.
        BadFile: it returned another number of values than the kernel writes.
    """
    import torch

    inputs = [_argument(name, named) for name in inspect.signature(reference).parameters]
    exact = as_tuple(reference(*(widened(value) if torch.is_tensor(value) else value for value in inputs)))
    if len(exact) != len(written):
        raise BadFile(
            f"reference returned {len(exact)} values, and the kernel writes {len(written)} tensors",
            remedy="return one tensor for each tensor that the kernel writes, in the order of its arguments",
        )
    return compare(written, exact, own_result(reference, inputs))


def _argument(name: str, named: Mapping[str, Any]) -> Any:
    if name not in named:
        raise unknown("kernel argument or setting for the reference's parameter", name, named)
    return named[name]
