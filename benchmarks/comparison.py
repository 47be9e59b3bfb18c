"""What a benchmark measures: rows of two medians taken in turns, and the ratio that is aimed at."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.errors import TilewrightError


class MeasurementFailed(TilewrightError, RuntimeError):
    """A process that measures one side of a benchmark ended with an error."""


@dataclass(frozen=True)
class Row:
    """One comparison. ``ours`` and ``peer`` are medians in ``unit``; ``ratio`` is peer / ours: above 1 is faster.

    ``limit`` is the largest ``ours`` allowed, ``goal`` the least ratio; None where there is no such aim.
    """

    what: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    goal: float | None = None
    limit: float | None = None

    @property
    def ratio(self) -> float:
        """How many times faster than the peer."""
        return self.peer / self.ours

    @property
    def met(self) -> bool:
        """Whether every aim of this row is reached."""
        return (self.goal is None or self.ratio >= self.goal) and (self.limit is None or self.ours <= self.limit)

    def to_dict(self) -> dict[str, Any]:
        """The row with its ratio and verdict, for JSON."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


@dataclass(frozen=True)
class Benchmark:
    """A named question and the function that answers it; ``note`` says in one line what it leaves out here, if any."""

    name: str
    question: str
    measure: Callable[[], tuple[Row, ...]]
    note: Callable[[], str] = str


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleaved(repeats: int, sides: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median of ``repeats`` measurements of each side, one after the other so that noise falls on all alike."""
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, measure in sides.items():
            seen[name].append(measure())
    return {name: statistics.median(values) for name, values in seen.items()}


def child(arguments: Sequence[str], environment: Mapping[str, str | None] | None = None) -> Any:
    """What a fresh Python process prints as JSON on its last line; a variable set to None is removed.

    Raises:
        MeasurementFailed: the process ended with an error, or printed no JSON.
    """
    variables = dict(os.environ)
    for name, value in (environment or {}).items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=variables, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise MeasurementFailed(
            f"measuring process failed with status {done.returncode}: {' '.join(arguments)[:200]}",
            values={"stderr": done.stderr.strip()[-800:]},
        )
    return json.loads(lines[-1])
