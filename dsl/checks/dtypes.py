"""Dtypes exist: TileLang takes any name that parses, such as ``float17``."""

from __future__ import annotations

from tilewright.errors import SourceSpan

from ..dtypes import accepted_names, dtype_name, is_known, suggestion
from ..errors import DtypeError
from ..program import Program
from ..spans import buffer_span, place
from ._context import Launch


def check_parameter_dtypes(program: Program) -> None:
    """Every parameter has a dtype that exists.

    Raises:
        DtypeError: it does not.
    """
    buffers = {str(buffer.name): buffer for _, buffer in program.func.buffer_map.items()}
    for param in program.params:
        span = place(buffer_span(buffers[param.name])) if param.name in buffers else None
        _require(param.name, param.dtype, span)


def check_buffer_dtypes(launch: Launch) -> None:
    """Every allocation has a dtype that exists.

    Raises:
        DtypeError: it does not.
    """
    for placed in launch.placed():
        if placed.entry.kind == "buffer":
            _require(placed.entry.label, dtype_name(placed.entry.node.dtype), placed.span)


def _require(name: str, dtype: str, span: SourceSpan | None) -> None:
    if is_known(dtype):
        return
    wanted = suggestion(dtype)
    hint = f"did you mean {wanted!r}? " if wanted else ""
    raise DtypeError(
        f"{name} has the unknown dtype {dtype!r}", span=span, remedy=f"{hint}dtypes are {accepted_names()}"
    )
