"""The error catalogue of the runtime: calls, devices, operators and the jit."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class ArgumentError(TilewrightError, ValueError):
    """A value passed to a kernel is not what the kernel was compiled for."""


class ArgumentCountError(ArgumentError, TypeError):
    """A kernel was called with too many, too few or unknown arguments."""


class GradientError(ArgumentError):
    """A tensor that requires a gradient reached a kernel or operator that has none."""


class TracingError(TilewrightError, RuntimeError):
    """A kernel was called under a transform (vmap, functorch) that it cannot take part in."""


class OutputIndexError(TilewrightError, ValueError):
    """``out_idx`` names a parameter that does not exist, is no tensor, or whose shape is not known from the inputs."""


class OptionError(TilewrightError, ValueError):
    """An option of ``compile``, ``jit`` or ``register_operator`` has a value that it cannot take."""


class JitError(TilewrightError, TypeError):
    """A function given to ``jit`` cannot be read, called or traced."""


class DriverError(TilewrightError, RuntimeError):
    """The CUDA driver refused a call."""


class VirtualGpuFault(TilewrightError, RuntimeError):
    """The virtual GPU found a fault while a kernel ran; ``report`` holds every finding."""

    report: object = None

    @classmethod
    def from_report(cls, kernel: str, report: object, findings: tuple[object, ...]) -> VirtualGpuFault:
        """The fault of ``kernel`` with the first three findings in its message."""
        shown = [line for finding in findings[:3] for line in str(finding).splitlines()[:3]][:8]
        more = f" (first 3 of {len(findings)})" if len(findings) > 3 else ""
        error = cls(
            f"{kernel}: the virtual GPU found {len(findings)} fault{'s' if len(findings) > 1 else ''}{more}\n"
            + "\n".join(f"  {line.strip()[:200]}" for line in shown),
            remedy="see error.report for every finding, its block, thread and line",
        )
        error.report = report
        return error
