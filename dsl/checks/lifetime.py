"""From the first to the last use of each buffer; a use inside a loop lasts for the outermost such loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._tilelang import tirx
from ..operations import Operation
from ..tree import Entry, Loop
from ._context import Launch


@dataclass(frozen=True)
class Lifetimes:
    """First and last step at which each buffer is used."""

    ranges: Mapping[str, tuple[int, int]]

    def peak(self, weights: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
        """The largest sum of weights alive at one step, and who is alive then."""
        best: tuple[int, tuple[str, ...]] = (0, ())
        known = {label: self.ranges[label] for label in weights if label in self.ranges}
        for step in {first for first, _ in known.values()}:
            live = tuple(label for label, (first, last) in known.items() if first <= step <= last)
            best = max(best, (sum(weights[label] for label in live), live))
        return best


def lifetimes(launch: Launch) -> Lifetimes:
    """The lifetimes of the buffers of a launch, by label."""
    labels = {id_of(entry.node): entry.label for placed in launch.placed() if (entry := placed.entry).kind == "buffer"}
    ranges: dict[str, tuple[int, int]] = {}
    for step, entry in enumerate(_steps(launch.grid.children)):
        for key in _used(entry):
            label = labels.get(key)
            if label is not None:
                ranges[label] = (min(step, ranges.get(label, (step, 0))[0]), step)
    return Lifetimes(ranges)


def id_of(buffer: Any) -> str:
    """A key of a buffer: two views of one allocation share it."""
    return str(hash(buffer.data))


def _steps(entries: tuple[Entry, ...]) -> list[Entry]:
    """The statements in order; a loop is one step."""
    steps: list[Entry] = []
    for entry in entries:
        if entry.kind == "buffer":
            continue
        if isinstance(entry.detail, Loop) or entry.kind == "if" or not entry.children:
            steps.append(entry)
        else:
            steps.extend(_steps(entry.children))
    return steps


def _used(entry: Entry) -> set[str]:
    if isinstance(entry.detail, Operation) and entry.detail.regions:
        return {id_of(region.buffer) for region in entry.detail.regions}
    found: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, (tirx.BufferLoad, tirx.BufferStore)):
            found.add(id_of(node.buffer))

    tirx.stmt_functor.post_order_visit(entry.node, visit)
    return found
