"""The errors and warnings of the front end: a kernel, a program or a target that cannot be right."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class DslError(TilewrightError):
    """Root of the front end's errors."""


class UnknownTarget(DslError, ValueError):
    """A target name that is not documented."""


class NotAPrimFunc(DslError, TypeError):
    """Something else than a TileLang PrimFunc was given or returned."""


class ParameterError(DslError, TypeError):
    """A factory was bound with a missing, unknown or unusable parameter."""


class SourceUnavailable(DslError, OSError):
    """The Python source of a kernel cannot be read, so it cannot be traced."""


class BuildError(DslError, ValueError):
    """A kernel's Python code failed while it was traced."""


class UndefinedName(DslError, NameError):
    """A kernel uses a name that is not defined."""


class ImmutableName(DslError, ValueError):
    """A Python name bound to a traced value is assigned again where the assignment would be lost."""


class UnknownLabel(DslError, KeyError):
    """No operation, loop or buffer of the outline has this name."""

    __str__ = TilewrightError.__str__


class AmbiguousLabel(DslError, KeyError):
    """A name fits several entries of the outline."""

    __str__ = TilewrightError.__str__


class AnnotationError(DslError, TypeError):
    """An annotation whose key or value type TileLang would ignore or crash on."""


class ShapeMismatch(DslError, ValueError):
    """The shapes of an operation's operands do not agree."""


class DtypeError(DslError, TypeError):
    """A dtype that does not exist, or dtypes that an operation or target cannot combine."""


class TileError(DslError, ValueError):
    """A tile size that the matrix units of the target cannot take."""


class ScopeError(DslError, ValueError):
    """An operand in a memory scope that the operation cannot take."""


class ThreadError(DslError, ValueError):
    """A thread count that cannot be launched or cannot be split over an operation."""


class GridError(DslError, ValueError):
    """A grid larger than a launch allows."""


class SharedMemoryError(DslError, ValueError):
    """More shared memory than a block of the target can have."""


class RegisterError(DslError, ValueError):
    """More registers a thread than the target has."""


class PipelineError(DslError, ValueError):
    """A pipeline depth that means nothing."""


class IndexOutOfRange(DslError, IndexError):
    """A constant index outside its buffer, or a wrong number of indices."""


class RaceError(DslError, ValueError):
    """A parallel loop whose iterations write the same element."""


class TilewrightWarning(UserWarning):
    """A kernel that compiles into something slower or other than its text suggests."""


class InstructionFallback(TilewrightWarning):
    """A matrix product that gets slower instructions than the target has."""


class PipelineDropped(TilewrightWarning):
    """A pipelined loop that is lowered without its pipeline."""


class ReadBeforeWrite(TilewrightWarning):
    """A buffer that is read before anything writes it."""


class RegisterPressure(TilewrightWarning):
    """Fragments that will not fit into registers together."""
