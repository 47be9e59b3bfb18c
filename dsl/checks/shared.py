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
    """Buffer -> versions the pipeline keeps: of those a pipelined loop's own statements fill from global memory."""
    versions: dict[str, int] = {}
    for placed in launch.placed():
        loop = placed.entry.detail
        if isinstance(loop, Loop) and loop.stages is not None:
            for name in (filled for child in placed.entry.children for filled in filled_buffers(child)):
                versions[name] = max(versions.get(name, 1), loop.stages)
    return versions


def filled_buffers(entry: Entry) -> list[str]:
    """The shared buffer that an entry copies from global memory, if it does."""
    operation = entry.detail
    if not isinstance(operation, Operation) or operation.name not in COPIES or len(operation.regions) != 2:
        return []
    source, target = operation.regions
    return [target.name] if source.scope == "global" and target.scope == "shared.dyn" else []
