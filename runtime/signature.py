"""What a call has to look like: inputs, outputs, and where each shape variable is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilewright.lowering import (
    Argument,
    Expression,
    LaunchPlan,
    PointerArgument,
    ScalarArgument,
    TensorArgument,
    TensorMapParameter,
)

from .dtypes import torch_dtype
from .errors import OutputIndexError
from .outputs import OutIdx, output_positions

_GREATEST = {"int32": 2**31 - 1, "uint32": 2**32 - 1}
_PRODUCT = re.compile(r"^\(?(\w+) \* (\d+)\)?$")


@dataclass(frozen=True)
class Origin:
    """Where a shape variable is read: a ``shape``, ``stride`` or ``scalar`` (``kind``), divided by ``factor``."""

    position: int
    kind: str
    axis: int
    factor: int = 1


@dataclass(frozen=True)
class Signature:
    """The call of one kernel; positions count the plan's arguments."""

    plan: LaunchPlan
    outputs: tuple[int, ...]
    origins: Mapping[str, Origin]

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """Positions of the arguments that the caller passes."""
        own = {*self.outputs, *self.workspaces}
        return tuple(i for i in range(len(self.plan.arguments)) if i not in own)

    @cached_property
    def workspaces(self) -> tuple[int, ...]:
        """Positions of the tensors that a call allocates and drops."""
        return tuple(i for i, a in enumerate(self.plan.arguments) if isinstance(a, TensorArgument) and a.workspace)

    @cached_property
    def tensors(self) -> tuple[int, ...]:
        """Positions of the tensors that the caller passes."""
        return tuple(i for i in self.inputs if isinstance(self.plan.arguments[i], TensorArgument))

    @cached_property
    def scalars(self) -> tuple[int, ...]:
        """Positions of the numbers that the caller passes."""
        return tuple(i for i in self.inputs if isinstance(self.plan.arguments[i], ScalarArgument))

    @cached_property
    def written(self) -> tuple[int, ...]:
        """Positions of the tensors that the caller passes and the kernel writes."""
        return tuple(
            i for i in self.inputs if not isinstance(a := self.plan.arguments[i], ScalarArgument) and _writes(a)
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the arguments that the caller passes, in order."""
        return tuple(self.plan.arguments[i].name for i in self.inputs)

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Names that expressions may read: shape variables, then scalars that are no shape variable."""
        scalars = (self.plan.arguments[i].name for i in self.scalars)
        return (*self.plan.variables, *(name for name in scalars if name not in self.plan.variables))

    @cached_property
    def greatest(self) -> Mapping[str, int]:
        """The greatest value of each variable that is read from a shape or stride and is narrower than 64 bits."""
        narrow = (s for s in self.plan.sources if s.kind != "scalar" and s.dtype in _GREATEST)
        return {source.variable: _GREATEST[source.dtype] for source in narrow}

    @cached_property
    def tensor_maps(self) -> tuple[TensorMapParameter, ...]:
        """Every tensor map that a call encodes."""
        return tuple(p for launch in self.plan.launches for p in launch.parameters if isinstance(p, TensorMapParameter))

    def tensor(self, position: int) -> TensorArgument:
        """The tensor argument at a position."""
        argument = self.plan.arguments[position]
        assert isinstance(argument, TensorArgument)
        return argument

    def read(self, values: Mapping[int, Any]) -> dict[str, Any]:
        """The shape variables and scalars of a call, from its arguments by position (ranks are right)."""
        found = {name: self._read_one(origin, values[origin.position]) for name, origin in self.origins.items()}
        for position in self.scalars:
            found.setdefault(self.plan.arguments[position].name, values[position])
        return found

    @staticmethod
    def _read_one(origin: Origin, value: Any) -> Any:
        if origin.kind == "scalar":
            return value
        number = value.shape[origin.axis] if origin.kind == "shape" else value.stride()[origin.axis]
        return number // origin.factor if origin.factor != 1 else number


def signature_of(plan: LaunchPlan, out_idx: OutIdx) -> Signature:
    """Read a plan's calling convention.

    Raises:
        ArgumentError: a tensor of an element type that torch does not have.
        OutputIndexError: ``out_idx`` is wrong, or no input tells a variable of an output's shape.
    """
    outputs = output_positions(plan, out_idx)
    for argument in plan.arguments:
        if isinstance(argument, TensorArgument):
            torch_dtype(argument.dtype, argument.name)
    whole = Signature(plan, outputs, {})
    inputs = [(i, plan.arguments[i]) for i in whole.inputs]
    origins: dict[str, Origin] = {}
    for kind in ("scalar", "shape", "stride", "product"):
        for position, argument in inputs:
            for name, origin in _found(kind, position, argument):
                if name in plan.variables:
                    origins.setdefault(name, origin)
    _require_known(plan, origins)
    return Signature(plan, outputs, {name: origins[name] for name in plan.variables if name in origins})


def _found(kind: str, position: int, argument: Argument) -> list[tuple[str, Origin]]:
    if kind == "scalar":
        return [(argument.name, Origin(position, "scalar", -1))] if isinstance(argument, ScalarArgument) else []
    if not isinstance(argument, TensorArgument):
        return []
    extents = (argument.strides or ()) if kind == "stride" else argument.shape
    if kind == "product":
        matches = [(axis, _PRODUCT.match(extent.text)) for axis, extent in enumerate(extents)]
        return [(m[1], Origin(position, "shape", axis, int(m[2]))) for axis, m in matches if m]
    return [(e.text, Origin(position, kind, axis)) for axis, e in enumerate(extents) if e.text.isidentifier()]


def _require_known(plan: LaunchPlan, origins: Mapping[str, Origin]) -> None:
    for name in plan.variables:
        if name not in origins:
            users = [a.name for a in plan.arguments if isinstance(a, TensorArgument) and _mentions(a, name)]
            raise OutputIndexError(
                f"{plan.name}: no input has the size {name} alone as a dimension, a stride or a scalar",
                values={"parameters with " + name: ", ".join(users) or "none"},
                remedy=f"leave a tensor with {name} out of out_idx and pass it, or give some input a dimension {name}",
            )


def _mentions(argument: TensorArgument, name: str) -> bool:
    extents: tuple[Expression, ...] = (*argument.shape, *(argument.strides or ()))
    return any(name in extent.variables for extent in extents)


def _writes(argument: TensorArgument | PointerArgument) -> bool:
    return isinstance(argument, PointerArgument) or argument.written
