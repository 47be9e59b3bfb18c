"""The machines a program can be compiled for, one record each."""

from __future__ import annotations

import difflib
import re
import sys
from dataclasses import dataclass, field

from tilewright import knobs

from .errors import UnknownTarget


@dataclass(frozen=True)
class _Machine:
    """Limits of one target; bytes and 32-bit registers (CUDA C++ Programming Guide, compute capabilities)."""

    arch: int
    max_dynamic_shared: int
    multiprocessors: int
    has_cp_async: bool = True
    has_fp8_mma: bool = False
    has_tma: bool = False
    has_wgmma: bool = False
    has_tcgen05: bool = False


_MACHINES = {
    "sm_80": _Machine(80, 166912, 108),
    "sm_89": _Machine(89, 101376, 128, has_fp8_mma=True),
    "sm_90a": _Machine(90, 232448, 132, has_fp8_mma=True, has_tma=True, has_wgmma=True),
    "sm_100a": _Machine(100, 232448, 148, has_fp8_mma=True, has_tma=True, has_tcgen05=True),
    "ascend": _Machine(0, 253952, 24, has_cp_async=False),
}


@dataclass(frozen=True)
class Target:
    """A machine by its documented name: ``sm_80``, ``sm_89``, ``sm_90a``, ``sm_100a`` or ``ascend``.

    Raises:
        UnknownTarget: another name; the message names the closest ones.
    """

    name: str
    _machine: _Machine = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise UnknownTarget(
                f"target must be a name, got {type(self.name).__name__}", remedy=f"use one of {', '.join(_MACHINES)}"
            )
        machine = _MACHINES.get(self.name)
        if machine is None:
            raise UnknownTarget(f"unknown target {self.name!r}", remedy=_advice(self.name))
        object.__setattr__(self, "_machine", machine)

    def __str__(self) -> str:
        return self.name

    @property
    def arch(self) -> int:
        """Compute capability times ten (80, 89, 90, 100); 0 for ``ascend``."""
        return self._machine.arch

    @property
    def has_cp_async(self) -> bool:
        """Asynchronous 4, 8 and 16 byte copies from global to shared memory."""
        return self._machine.has_cp_async

    @property
    def has_fp8_mma(self) -> bool:
        """Matrix units that take e4m3 and e5m2 operands."""
        return self._machine.has_fp8_mma

    @property
    def has_tma(self) -> bool:
        """The tensor memory accelerator."""
        return self._machine.has_tma

    @property
    def has_wgmma(self) -> bool:
        """Warpgroup matrix instructions (sm_90a alone)."""
        return self._machine.has_wgmma

    @property
    def has_tcgen05(self) -> bool:
        """Fifth-generation matrix instructions with tensor memory."""
        return self._machine.has_tcgen05

    @property
    def max_threads(self) -> int:
        """Largest block, in threads."""
        return 1024

    @property
    def multiprocessors(self) -> int:
        """Multiprocessors of the usual machine: A100, RTX 4090, H100 SXM, B200; 24 cores of Ascend 910B."""
        return self._machine.multiprocessors

    @property
    def warp_size(self) -> int:
        """Threads in a warp."""
        return 32

    @property
    def max_dynamic_shared(self) -> int:
        """Largest dynamic shared memory of a block, in bytes."""
        return self._machine.max_dynamic_shared

    @property
    def max_static_shared(self) -> int:
        """Largest static shared memory of a block, in bytes."""
        return 49152

    @property
    def registers_per_sm(self) -> int:
        """32-bit registers of one multiprocessor."""
        return 65536

    @property
    def max_registers_per_thread(self) -> int:
        """32-bit registers one thread can address."""
        return 255

    @staticmethod
    def names() -> tuple[str, ...]:
        """Every documented name."""
        return tuple(_MACHINES)

    @staticmethod
    def default() -> Target:
        """The knob ``TILEWRIGHT_TARGET``, else the GPU that an already imported torch sees, else ``sm_90a``.

        Raises:
            UnknownTarget: the knob holds no documented name.
        """
        chosen = knobs.TARGET.text()
        if chosen is not None:
            return Target(chosen)
        return Target(_gpu_name() or "sm_90a")


def _gpu_name() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    if major == 8:
        return "sm_89" if minor == 9 else "sm_80"
    return {9: "sm_90a", 10: "sm_100a"}.get(major)


def _advice(name: str) -> str:
    bare = re.fullmatch(r"(?:sm|compute)?_?(\d{2,3})a?", name.strip().lower())
    if bare:
        exact = [known for known in _MACHINES if re.sub(r"\D", "", known) == bare[1]]
        if exact:
            return f"use {exact[0]!r}"
    if name.strip().lower() in ("hopper", "h100", "h200"):
        return "use 'sm_90a'"
    close = difflib.get_close_matches(name.strip().lower(), _MACHINES, n=2, cutoff=0.5)
    known = ", ".join(_MACHINES)
    return f"did you mean {' or '.join(close)}? Known: {known}" if close else f"use one of {known}"
