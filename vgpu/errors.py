"""Errors of the virtual GPU: malformed PTX, unknown instructions, wrong launches. A fault of a kernel is a finding."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class PtxSyntaxError(TilewrightError, ValueError):
    """The PTX text is malformed at the named line."""


class UnsupportedInstruction(TilewrightError, ValueError):
    """The virtual GPU does not execute this opcode, modifier, type or operand."""


class LaunchError(TilewrightError, ValueError):
    """A launch does not fit the kernel: entry name, argument count or type, grid, block, shared memory, mode."""


class KernelFault(TilewrightError, RuntimeError):
    """A kernel ran with findings (raised by ``Report.raise_for_findings``)."""


class TensorMapError(TilewrightError, ValueError):
    """A tensor map breaks a rule of ``cuTensorMapEncodeTiled`` or leaves its tensor."""
