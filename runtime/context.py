"""Ambient choices and counters: ``use(target=..., schedule=...)`` and ``stats()``."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tilewright import knobs, lowering
from tilewright.dsl import Target
from tilewright.schedules import Schedule


@dataclass(frozen=True)
class _Choice:
    target: Target | None = None
    schedule: Schedule | None = None


_choice: ContextVar[_Choice] = ContextVar("tilewright_choice", default=_Choice())  # noqa: B039


@contextmanager
def _during(variable: ContextVar[Any], value: object) -> Iterator[None]:
    """``variable`` holds ``value`` inside."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def use(*, target: Target | str | None = None, schedule: Schedule | None = None) -> Iterator[None]:
    """Choose target and schedule for operators called inside; ``compile`` and ``jit`` take the target too.

    May be nested; each thread and task has its own choice. What is left None stays as it was outside.

    Raises:
        UnknownTarget: the target's name is not documented.
    """
    outer = _choice.get()
    named = Target(target) if isinstance(target, str) else target
    with _during(_choice, _Choice(named or outer.target, schedule if schedule is not None else outer.schedule)):
        yield


def current_target() -> Target:
    """The target chosen by the innermost ``use``, else the default target."""
    return _choice.get().target or Target.default()


def target_token() -> str:
    """A cheap name for what decides ``current_target``: equal tokens in one process mean equal targets."""
    chosen = _choice.get().target
    return chosen.name if chosen is not None else os.environ.get(knobs.TARGET.name, "")


def current_schedule() -> Schedule | None:
    """The schedule chosen by the innermost ``use``, if any."""
    return _choice.get().schedule


@dataclass(frozen=True)
class Recording:
    """Where launches on the virtual GPU put their reports, and how they run: ``mode`` None and no options as usual."""

    reports: list[Any]
    mode: str | None
    options: tuple[tuple[str, Any], ...]


_recording: ContextVar[Recording | None] = ContextVar("tilewright_recording", default=None)


@contextmanager
def recording(mode: str | None = None, **options: Any) -> Iterator[list[Any]]:
    """Collect the report of every launch on the virtual GPU inside; findings are in the reports and do not raise.

    Args:
        mode: scheduling mode of the launches; None leaves it to the device and the knob ``TILEWRIGHT_VGPU_MODE``.
        options: further keyword arguments of ``vgpu.launch``, such as ``checks`` and ``seed``.
    """
    reports: list[Any] = []
    with _during(_recording, Recording(reports, mode, tuple(options.items()))):
        yield reports


def current_recording() -> Recording | None:
    """What the innermost ``recording`` asks for, if any."""
    return _recording.get()


@dataclass(frozen=True)
class Gathering:
    """Where launches on the virtual GPU are kept instead of run: as grids of ``device`` that may reach ``memory``."""

    grids: list[Any]
    device: int
    memory: tuple[Any, ...]


_gathering: ContextVar[Gathering | None] = ContextVar("tilewright_gathering", default=None)


@contextmanager
def gathering(device: int, memory: tuple[Any, ...]) -> Iterator[list[Any]]:
    """Keep every launch on the virtual GPU inside, as a ``vgpu.Launch``, instead of running it."""
    grids: list[Any] = []
    with _during(_gathering, Gathering(grids, device, memory)):
        yield grids


def current_gathering() -> Gathering | None:
    """Where launches are kept, if they are not to run."""
    return _gathering.get()


class Counters:
    """Named counts that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def add(self, name: str, amount: int = 1) -> None:
        """Add to one count."""
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + amount

    def read(self) -> dict[str, int]:
        """A copy of the counts."""
        with self._lock:
            return dict(self._counts)


counters = Counters()
_NAMES = ("kernels", "launches", "device_loads", "traced_calls", "jit_hits", "jit_misses")


def stats() -> dict[str, float]:
    """Counts since the process began: compiles and cache hits of lowering, and of the runtime:

    ``kernels`` (Kernel objects made), ``launches``, ``device_loads`` (kernels made ready on a device), ``traced_calls``
    (calls under a tracer), ``jit_hits`` and ``jit_misses`` (``jit`` calls that found their kernel, or did not).
    """
    return {**dict.fromkeys(_NAMES, 0), **lowering.counters(), **counters.read()}
