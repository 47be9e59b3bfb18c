"""Annotations that ``from __future__ import annotations`` turned into text, evaluated where they were written.

TileLang looks names of such a text up among the globals and the closure of the function. A size or dtype of the
enclosing factory that only the annotation names is in neither: it lives in the frame that defines the function.
"""

from __future__ import annotations
import __future__

import sys
import types
from collections.abc import Callable
from typing import Any

_TEXTS = __future__.annotations.compiler_flag


def resolve_annotations(function: Callable[..., Any]) -> None:
    """Replace textual annotations by their values, with the locals of the frame that is defining ``function``.

    Nothing is changed when the annotations are no texts, or when that frame is no longer running. A name that is known
    nowhere is left to tracing, which reports it.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType) or not code.co_flags & _TEXTS:
        return
    frame = _defining(code)
    if frame is None:
        return
    names = {**function.__globals__, **frame.f_locals}
    for name, text in function.__annotations__.items():
        if type(text) is str:
            try:
                function.__annotations__[name] = eval(text, names)
            except NameError:
                continue


def _defining(code: types.CodeType) -> types.FrameType | None:
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and code not in frame.f_code.co_consts:
        frame = frame.f_back
    return frame
