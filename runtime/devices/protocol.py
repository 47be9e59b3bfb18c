"""What a device is to a kernel: something that makes a launcher."""

from __future__ import annotations

from typing import Protocol

from tilewright.lowering import Artifact

from ..entry import Launcher
from ..signature import Signature


class Device(Protocol):
    """Prepares artifacts for launching. A launcher is called as ``launch(*objects, *pointers, *values)``."""

    def prepare(self, artifact: Artifact, signature: Signature, index: int) -> Launcher:
        """A launcher for one device; ``index`` is torch's device number, -1 for CPU tensors."""
        ...
