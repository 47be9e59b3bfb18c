"""What an operator is: one record that the command line, the tests and the tuner read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.dsl import Program, Target
from tilewright.schedules import Schedule

Values = Mapping[str, Any]

TARGETS = ("sm_80", "sm_89", "sm_90a")  # every target that operators are compiled for


@dataclass(frozen=True)
class Lowering:
    """What an operator compiles for given values: a program and the schedule it takes by default."""

    program: Program
    schedule: Schedule


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from the reference: ``factor`` times torch's own error, and never less than ``units``.

    ``units`` counts roundings (machine epsilon of the result) of the largest reference value.
    """

    factor: float = 2.0
    units: float = 1.0

    def bound(self, result: torch.Tensor, reference: torch.Tensor, torch_error: float) -> float:
        """The largest allowed absolute error of ``result`` where torch's own is ``torch_error``."""
        epsilon = torch.finfo(result.dtype).eps if result.is_floating_point() else 0.0
        return max(self.factor * torch_error, self.units * epsilon * float(reference.abs().max()))


@dataclass(frozen=True)
class Comparison:
    """A result beside the reference: largest absolute error, that of torch, and the allowed one."""

    error: float
    torch_error: float
    allowed: float

    @property
    def ok(self) -> bool:
        """Whether the result is close enough (NaN is not)."""
        return self.error <= self.allowed


@dataclass(frozen=True)
class Expected:
    """What a call should return: the reference's tensors, and torch's own in the call's types."""

    exact: tuple[torch.Tensor, ...]
    own: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Operator:
    """An operator.

    Attributes:
        name: its name in ``tilewright.ops`` and ``torch.ops.tilewright``.
        summary: one line.
        schema: arguments and result in torch's schema language.
        function: the public function.
        parameters: values that ``--set`` may change, with defaults; they describe one call.
        inputs: values, generator -> the call's positional and keyword arguments.
        lowering: values, target -> what is compiled for such a call (the largest launch of it).
        reference: the call's arguments -> the exact result, in a wide type.
        baseline: the call's arguments -> torch's result in the call's own types.
        samples: values of typical and of hard calls.
        tolerance: how far results may be off.
        targets: names of the targets that take the values.
        differentiable: whether gradients flow through it.
        around: values -> what must hold while it, or torch's own, is called, such as the precision of float32.
    """

    name: str
    summary: str
    schema: str
    function: Callable[..., Any]
    parameters: Values
    inputs: Callable[[Values, torch.Generator], tuple[tuple[Any, ...], dict[str, Any]]]
    lowering: Callable[[Values, Target], Lowering]
    reference: Callable[..., Any]
    baseline: Callable[..., Any]
    samples: tuple[Values, ...]
    tolerance: Tolerance
    targets: Callable[[Values], tuple[str, ...]]
    differentiable: bool
    around: Callable[[Values], AbstractContextManager[None]]

    def values(self, given: Values | None = None) -> dict[str, Any]:
        """The parameters with some of them given, texts converted to the default's type.

        Raises:
            OptionError: a name that is no parameter, or a value of another type.
        """
        from .values import merged

        return merged(self.name, self.parameters, given or {})

    def expected(self, *args: Any, **keywords: Any) -> Expected:
        """What ``function(*args, **keywords)`` should return."""
        return Expected(tensors(self.reference(*args, **keywords)), tensors(self.baseline(*args, **keywords)))

    def compare(self, result: Any, *args: Any, **keywords: Any) -> Comparison:
        """A result of ``function(*args, **keywords)``, a tensor or several, beside the reference: the worst of them."""
        return self.judge(result, self.expected(*args, **keywords))

    def judge(self, result: Any, expected: Expected) -> Comparison:
        """The same for results that are known already."""
        every = zip(tensors(result), expected.exact, expected.own, strict=True)
        compared = [self._one(*three) for three in every]
        return max(compared, key=lambda one: (not one.ok, one.error / one.allowed if one.allowed else 0.0))

    def _one(self, result: torch.Tensor, exact: torch.Tensor, own: torch.Tensor) -> Comparison:
        if exact.numel() == 0:
            return Comparison(0.0, 0.0, 0.0)
        exact = exact if exact.dtype == torch.int64 else exact.double()
        error = float((result.to(exact.dtype) - exact).abs().max())
        torch_error = float((own.to(exact.dtype) - exact).abs().max())
        return Comparison(error, torch_error, self.tolerance.bound(result, exact, torch_error))


def tensors(result: Any) -> tuple[torch.Tensor, ...]:
    """The tensors that an operator returned."""
    return result if isinstance(result, tuple) else (result,)
