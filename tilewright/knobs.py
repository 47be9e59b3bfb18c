"""Every environment variable of Tilewright, typed, in one place. Read at each use, so a test may set them.

| variable | type | default | meaning |
|---|---|---|---|
| ``TILEWRIGHT_TARGET`` | name | GPU found, else ``sm_90a`` | target when none is given |
| ``TILEWRIGHT_CACHE_DIR`` | folder | ``$XDG_CACHE_HOME/tilewright`` or ``~/.cache/tilewright`` | artifact cache and precompiled headers |
| ``TILEWRIGHT_CACHE`` | 0 or 1 | 1 | 0 compiles everything anew and stores nothing |
| ``TILEWRIGHT_DEBUG`` | 0 or 1 | 0 | 1 keeps backend tracebacks in errors |
| ``TILEWRIGHT_CUDA_HOME`` | folder | pip wheels, then ``CUDA_HOME``, then ``/usr/local/cuda`` | where the CUDA toolchain is |
| ``TILEWRIGHT_VGPU_THREADS`` | number | number of CPUs | host threads of the virtual GPU |
| ``TILEWRIGHT_VGPU_MODE`` | name | ``eager`` | scheduling mode of the virtual GPU |
| ``TILEWRIGHT_DEVICE`` | name | by tensor | ``vgpu`` or ``null``: device for CPU tensors |
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import KnobError


@dataclass(frozen=True)
class Knob:
    """One environment variable: its name, default (None: decided elsewhere) and the values it may take."""

    name: str
    default: str | None
    choices: tuple[str, ...] = ()

    def text(self) -> str | None:
        """The raw value, checked against ``choices``; the default when unset or empty.

        Raises:
            KnobError: the value is not one of ``choices``.
        """
        value = os.environ.get(self.name) or self.default
        if value is not None and self.choices and value not in self.choices:
            raise KnobError(
                f"{self.name} = {value!r} is not a value it can take", remedy=f"use one of {', '.join(self.choices)}"
            )
        return value

    def flag(self) -> bool:
        """True for ``1``, False for ``0``."""
        return self.text() == "1"

    def number(self) -> int | None:
        """A positive whole number, or None when unset.

        Raises:
            KnobError: the value is not a positive whole number.
        """
        value = self.text()
        if value is None:
            return None
        if not value.isdigit() or int(value) == 0:
            raise KnobError(
                f"{self.name} = {value!r} is not a positive whole number", remedy=f"set {self.name}=1 or more"
            )
        return int(value)


TARGET = Knob("TILEWRIGHT_TARGET", None)
CACHE = Knob("TILEWRIGHT_CACHE", "1", ("0", "1"))
CACHE_DIR = Knob("TILEWRIGHT_CACHE_DIR", None)
DEBUG = Knob("TILEWRIGHT_DEBUG", "0", ("0", "1"))
CUDA_HOME = Knob("TILEWRIGHT_CUDA_HOME", None)
VGPU_THREADS = Knob("TILEWRIGHT_VGPU_THREADS", None)
VGPU_MODE = Knob("TILEWRIGHT_VGPU_MODE", "eager")
DEVICE = Knob("TILEWRIGHT_DEVICE", None, ("vgpu", "null"))

ALL = (TARGET, CACHE_DIR, CACHE, DEBUG, CUDA_HOME, VGPU_THREADS, VGPU_MODE, DEVICE)


def cache_dir() -> Path:
    """The folder for artifacts and precompiled headers (not created here)."""
    chosen = CACHE_DIR.text()
    if chosen is not None:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tilewright"
