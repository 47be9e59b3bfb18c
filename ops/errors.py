"""The error catalogue of the operators: what an operator was given and cannot take."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class OperatorError(TilewrightError):
    """Root of the operators' errors."""


class ShapeError(OperatorError, ValueError):
    """Ranks or sizes of an operator's arguments that do not fit together, or are beyond its limits."""


class OperandTypeError(OperatorError, TypeError):
    """Element types that an operator, or the target it runs on, cannot take or combine."""


class DeviceMismatch(OperatorError, ValueError):
    """Arguments of one operator call on different devices."""


class OptionError(OperatorError, ValueError):
    """An option of an operator that is none of its values."""


class UnknownOperator(OperatorError, KeyError):
    """No operator of this name is registered."""

    __str__ = TilewrightError.__str__
