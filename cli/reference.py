"""Calling a user's ``reference`` by the names of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .compare import Comparison, as_tuple, compare, own_result, widened
from .errors import BadFile, unknown


@dataclass(frozen=True)
class Expected:
    """What a reference says of one call: its values in float64, and in the dtypes of the kernel."""

    exact: tuple[Any, ...]
    own: tuple[Any, ...]


def expected_of(reference: Callable[..., Any], named: Mapping[str, Any]) -> Expected:
    """What a kernel should write.

    Args:
        reference: its parameters are taken from ``named``.
        named: arguments of the kernel before it ran, and the settings.

    Raises:
        UnknownName: a parameter of the reference that is in ``named`` under no name.
    """
    import torch

    inputs = [_argument(name, named) for name in inspect.signature(reference).parameters]
    exact = as_tuple(reference(*(widened(value) if torch.is_tensor(value) else value for value in inputs)))
    return Expected(exact, own_result(reference, inputs))


def judge(expected: Expected, written: Sequence[Any]) -> Comparison:
    """Compares what a kernel wrote with what it should, one value for each tensor of ``written``, in order.

    Raises:
        BadFile: the reference returned another number of values than the kernel writes.
    """
    if len(expected.exact) != len(written):
        raise BadFile(
            f"reference returned {len(expected.exact)} values, and the kernel writes {len(written)} tensors",
            remedy="return one tensor for each tensor that the kernel writes, in the order of its arguments",
        )
    return compare(written, expected.exact, expected.own)


def _argument(name: str, named: Mapping[str, Any]) -> Any:
    if name not in named:
        raise unknown("kernel argument or setting for the reference's parameter", name, named)
    return named[name]
