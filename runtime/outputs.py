"""Which parameters of a kernel are outputs that the runtime allocates (``out_idx``, as TileLang numbers them)."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lowering import LaunchPlan, TensorArgument

from .errors import OutputIndexError

OutIdx = int | Sequence[int] | None


def output_positions(plan: LaunchPlan, out_idx: OutIdx) -> tuple[int, ...]:
    """Positions of the outputs in the user's signature, in the order in which a call returns them.

    Negative numbers count from the end.

    Raises:
        OutputIndexError: a number out of range, a repeated one, or one that names a scalar.
    """
    if out_idx is None:
        return ()
    given = (out_idx,) if isinstance(out_idx, int) else tuple(int(index) for index in out_idx)
    parameters = [a for a in plan.arguments if not (isinstance(a, TensorArgument) and a.workspace)]
    count = len(parameters)
    positions = tuple(index + count if index < 0 else index for index in given)
    for index, position in zip(given, positions, strict=True):
        if not 0 <= position < count:
            raise OutputIndexError(
                f"out_idx = {index} is out of range: {plan.name} has {count} parameters",
                values={"parameters": ", ".join(argument.name for argument in parameters)},
                remedy=f"use a number from {-count} to {count - 1}",
            )
        if not isinstance(plan.arguments[position], TensorArgument):
            raise OutputIndexError(
                f"out_idx = {index} names {plan.arguments[position].name}, which is a scalar",
                remedy="only tensors can be outputs",
            )
    if len(set(positions)) != len(positions):
        raise OutputIndexError(
            f"out_idx = {list(given)} names a parameter twice", remedy="name every output parameter once"
        )
    return positions
