"""Errors of lowering: what the toolchain, TileLang, the cache or a plan refused."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class BadExpression(TilewrightError, ValueError):
    """An expression over shape variables is malformed or cannot be evaluated."""


class BadOption(TilewrightError, ValueError):
    """A lowering option is unknown or has a value of the wrong type."""


class BadPlan(TilewrightError, ValueError):
    """A stored launch plan does not have the form that this version writes."""


class BadArtifact(TilewrightError, ValueError):
    """A saved artifact is damaged, or is not an artifact at all."""


class UnsupportedHostCode(TilewrightError):
    """The host side of a kernel does more than launch kernels in sequence, so no launch plan describes it."""


class UnsupportedTarget(TilewrightError, ValueError):
    """The target is known but this version cannot lower to it."""


class LoweringError(TilewrightError):
    """TileLang refused the program; the message is TileLang's, without its C++ frames."""


class CompileError(TilewrightError):
    """The CUDA compiler refused the generated source."""


class ResourceLimit(TilewrightError):
    """A lowered kernel asks for more threads or shared memory than the target has."""


class ToolchainMissing(TilewrightError):
    """A part of the CUDA toolchain that this step needs was not found, or does not support the target."""


class LoweringWarning(UserWarning):
    """Something that does not stop lowering but that the user should know."""
