"""How far a result may be from the truth: twice the error of torch's own result, both measured against float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# the largest |value - exact| allowed, as a multiple of torch's own
FACTOR = 2.0


@dataclass(frozen=True)
class Comparison:
    """Largest absolute errors over all outputs. ``tolerance`` is what ``error`` may be at most."""

    error: float
    torch_error: float
    tolerance: float
    largest: float

    @property
    def within(self) -> bool:
        """Whether the error is within the tolerance (never, if it is not a number)."""
        return self.error <= self.tolerance


def largest_error(value: Any, exact: Any) -> float:
    """The largest absolute difference: 0 where both are the same infinity or NaN, ``inf`` where only one is."""
    import torch

    value = value.detach().to("cpu", torch.float64)
    if value.shape != exact.shape:
        return math.inf
    difference = (value - exact).abs()
    same = (value == exact) | (value.isnan() & exact.isnan())
    difference = torch.where(same, torch.zeros_like(difference), difference)
    return float(torch.where(difference.isnan(), math.inf, difference).max()) if difference.numel() else 0.0


def compare(outputs: Sequence[Any], exact: Sequence[Any], native: Sequence[Any]) -> Comparison:
    """Compares the outputs of a kernel, and of torch in the same dtypes, with the exact values (float64).

    The tolerance is twice torch's error, and never less than one unit in the last place of the largest exact value:
    torch may happen to be exact.
    """
    worst: Comparison | None = None
    for output, wide, own in zip(outputs, exact, native, strict=True):
        truth = wide.detach().to("cpu").double()
        largest = float(truth[truth.isfinite()].abs().max()) if truth.isfinite().any() else 0.0
        unit = largest * resolution(output.dtype)
        error, torch_error = largest_error(output, truth), largest_error(own.to(output.dtype), truth)
        one = Comparison(error, torch_error, max(FACTOR * torch_error, unit), largest)
        if worst is None or one.error * worst.tolerance > worst.error * one.tolerance or not one.within:
            worst = one
    return worst or Comparison(0.0, 0.0, 0.0, 0.0)


def resolution(dtype: Any) -> float:
    """One unit in the last place of 1.0, or 0 for whole numbers."""
    import torch

    return float(torch.finfo(dtype).eps) if dtype.is_floating_point else 0.0


def widened(tensor: Any) -> Any:
    """Floating point as float64, whole numbers as int64."""
    import torch

    return tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int64)


def own_result(reference: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The reference in the dtypes of the inputs; in float32 where torch has no kernel for them (8-bit floats)."""
    import torch

    try:
        return as_tuple(reference(*inputs))
    except RuntimeError:
        wide = [x.to(torch.float32) if torch.is_tensor(x) and x.dtype.is_floating_point else x for x in inputs]
        return as_tuple(reference(*wide))


def as_tuple(value: Any) -> tuple[Any, ...]:
    """One output or several, as a tuple."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)
