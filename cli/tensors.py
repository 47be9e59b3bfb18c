"""Arguments for a kernel, made from its launch plan: random values that are the same at each run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import BadSetting

if TYPE_CHECKING:
    import torch

    from tilewright.lowering import LaunchPlan

SEED = 0


def make_arguments(plan: LaunchPlan, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """A tensor or number for every argument of the plan, by name, on the CPU. Written tensors start random too.

    Raises:
        BadSetting: a shape variable without a size.
    """
    import torch

    from tilewright.lowering import ScalarArgument, TensorArgument

    generator = torch.Generator().manual_seed(SEED)
    missing = [name for name in needed(plan) if name not in sizes]
    if missing:
        raise BadSetting(
            f"{plan.name} needs a size for {', '.join(missing)}",
            remedy=f"add {' '.join(f'--set {name}=...' for name in missing)}",
        )
    made: dict[str, Any] = {}
    for argument in plan.arguments:
        if isinstance(argument, TensorArgument) and argument.workspace:
            continue
        if isinstance(argument, TensorArgument):
            shape = tuple(extent.evaluate_in(sizes) for extent in argument.shape)
            strides = None if argument.strides is None else tuple(s.evaluate_in(sizes) for s in argument.strides)
            made[argument.name] = strided(random(shape, argument.dtype, generator), strides)
        elif isinstance(argument, ScalarArgument):
            made[argument.name] = sizes[argument.name]
        else:
            raise BadSetting(f"{argument.name} is a bare address: its shape is not known", remedy="run it from Python")
    return made


def needed(plan: LaunchPlan) -> tuple[str, ...]:
    """The names whose values make every shape, stride and scalar argument of a plan known."""
    from tilewright.lowering import ScalarArgument, TensorArgument

    names: dict[str, None] = {}
    for argument in plan.arguments:
        if isinstance(argument, ScalarArgument):
            names[argument.name] = None
        elif isinstance(argument, TensorArgument):
            for expression in (*argument.shape, *(argument.strides or ())):
                names.update(dict.fromkeys(expression.variables))
    return tuple(names)


def random(shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> torch.Tensor:
    """Normal values for floating point, -4..4 for whole numbers (0..4 without sign), coin flips for bool."""
    import torch

    kind = getattr(torch, dtype)
    if kind == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if kind.is_floating_point:
        return torch.randn(shape, generator=generator).to(kind)
    return torch.randint(0 if dtype.startswith("u") else -4, 5, shape, generator=generator).to(kind)


def strided(tensor: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
    """The same values at the given strides (in elements); contiguous when there are none."""
    import torch

    if strides is None or tensor.stride() == strides:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)
