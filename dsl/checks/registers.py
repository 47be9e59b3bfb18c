"""Registers a thread needs for fragments, against what one thread can address."""

from __future__ import annotations

import warnings

from ..errors import RegisterError, RegisterPressure
from ._context import Launch
from .lifetime import lifetimes


def check_registers(launch: Launch) -> None:
    """Fragments fit into the registers of the block's threads.

    Fragments alive together that exceed it are a warning, since the compiler spills them; one fragment of more than
    twice as many is refused.

    Raises:
        RegisterError: a single fragment would lie mostly outside the registers.
    """
    threads, limit = launch.threads, launch.target.max_registers_per_thread
    if threads is None:
        return
    weights: dict[str, int] = {}
    for entry, info in launch.buffers("local.fragment"):
        if info.nbytes is None:
            continue
        needed = -(-info.nbytes // (4 * threads))
        weights[entry.label] = needed
        if needed > 2 * limit:
            raise RegisterError(
                f"fragment {entry.label} needs {needed} registers a thread, the limit is {limit}", span=entry.span,
                values={entry.label: f"{info.dtype}[{', '.join(map(str, info.shape))}]", "threads": threads},
                remedy="use more threads or a smaller tile, or keep it in shared memory",
            )  # fmt: skip
    peak, live = lifetimes(launch).peak(weights)
    if peak > limit:
        largest = sorted(live, key=lambda label: -weights[label])[:4]
        listed = ", ".join(f"{label} {weights[label]}" for label in largest)
        where = f" ({launch.grid.span})" if launch.grid.span else ""
        warnings.warn(
            f"fragments alive at once need {peak} of {limit} registers a thread{where} and will spill: {listed}",
            RegisterPressure,
            stacklevel=2,
        )
