"""Shared memory: what must be alive at once, pipeline versions included, against the limits of the target."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import SharedMemoryError
from ..operations import COPIES, Operation
from ..tree import BufferInfo, Entry, Loop
from ._context import Launch
from .lifetime import Lifetimes, lifetimes

_SHOWN = 6


def check_shared(launch: Launch) -> None:
    """Static and dynamic shared memory of a block within the target's limits.

    The dynamic figure is a lower bound: buffers whose uses do not overlap are taken to share storage.

    Raises:
        SharedMemoryError: too much; the message lists the buffers, largest first.
    """
    versions = pipeline_versions(launch)
    alive = lifetimes(launch)
    for scope, limit, kind in (
        ("shared", launch.target.max_static_shared, "static"),
        ("shared.dyn", launch.target.max_dynamic_shared, "dynamic"),
    ):
        sizes = {
            entry.label: (entry, info, versions.get(entry.label, 1))
            for entry, info in launch.buffers(scope)
            if info.nbytes
        }
        _check(launch, kind, limit, sizes, alive)


Sizes = Mapping[str, tuple[Entry, BufferInfo, int]]


def _check(launch: Launch, kind: str, limit: int, sizes: Sizes, alive: Lifetimes) -> None:
    weights = {label: (info.nbytes or 0) * count for label, (_, info, count) in sizes.items()}
    peak, live = alive.peak(weights)
    if peak <= limit:
        return
    largest = sorted(live, key=lambda label: -weights[label])
    span = sizes[largest[0]][0].span
    shown = {label: _describe(*sizes[label][1:]) for label in largest[:_SHOWN]}
    if len(largest) > _SHOWN:
        shown["and"] = f"{len(largest) - _SHOWN} more"
    advice = "allocate it dynamically (the default scope), or " if kind == "static" else ""
    raise SharedMemoryError(
        f"{peak} bytes of {kind} shared memory, {launch.target.name} has {limit} for a block", span=span, values=shown,
        remedy=f"{advice}use smaller tiles, a narrower dtype or fewer pipeline stages",
    )  # fmt: skip


def _describe(info: BufferInfo, count: int) -> str:
    text = f"{info.nbytes} B {info.dtype}[{', '.join(map(str, info.shape))}]"
    return f"{count} stages x {text}" if count > 1 else text


def pipeline_versions(launch: Launch) -> dict[str, int]:
    """Buffer -> copies the pipeline keeps of it: those that a pipelined loop fills from global memory."""
    versions: dict[str, int] = {}
    for placed in launch.placed():
        loop = placed.entry.detail
        if not isinstance(loop, Loop) or loop.stages is None or has_inner_loop(placed.entry):
            continue
        for child in placed.entry.children:
            operation = child.detail
            if isinstance(operation, Operation) and operation.name in COPIES and operation.regions[0].scope == "global":
                target = operation.regions[-1]
                if target.scope == "shared.dyn":
                    versions[target.name] = max(versions.get(target.name, 1), loop.stages)
    return versions


def has_inner_loop(entry: Entry) -> bool:
    """Whether a sequential loop stands inside; TileLang then drops the pipeline."""
    below = (inner for child in entry.children for inner in child.walk())
    return any(isinstance(inner.detail, Loop) and inner.detail.kind != "parallel" for inner in below)
