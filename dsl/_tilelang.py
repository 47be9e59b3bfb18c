"""The one place that imports TileLang, with the process state it changes put back.

``import tilelang`` sets ``PYTHONPATH``, ``TVM_LIBRARY_PATH``, ``TL_CUTLASS_PATH`` and ``TL_TEMPLATE_PATH`` in the
environment (every child process inherits them), puts two folders in front of ``sys.path``, replaces
``sys.excepthook`` and ``inspect.getfile`` and installs a native SIGSEGV handler. Put back: the environment (TileLang
pins the values on its own ``env`` object), both hooks, and the signal handler. The ``sys.path`` entries stay, since
tvm imports lazily, but move to the end, where they shadow no module of the user. Not undone: the name ``tvm`` means
TileLang's copy from then on, and TileLang's cache folder. When the user imported TileLang first, nothing is put back.

Three functions of TileLang are replaced: ``Builder.set_fileline`` (see ``_blame_callers``), ``get_type_hints`` (see
``_read_textual_hints``) and ``mutate`` (see ``macros``).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import inspect
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from .hints import resolve_annotations
from .macros import remembering

_SIGACTION_BYTES = 256  # larger than struct sigaction of any libc


@contextlib.contextmanager
def _keep_signal_handler() -> Iterator[None]:
    libc = ctypes.CDLL(None)
    saved = ctypes.create_string_buffer(_SIGACTION_BYTES)
    known = libc.sigaction(int(signal.SIGSEGV), None, saved) == 0
    try:
        yield
    finally:
        if known:
            libc.sigaction(int(signal.SIGSEGV), saved, None)


def _import_quietly() -> None:
    environment, path, hook, getfile = dict(os.environ), list(sys.path), sys.excepthook, inspect.getfile
    with _keep_signal_handler():
        importlib.import_module("tilelang")
    sys.excepthook = hook
    inspect.getfile = getfile
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
    os.environ.clear()
    os.environ.update(environment)


if "tilelang" not in sys.modules:
    _import_quietly()

import tilelang  # noqa: E402
import tvm  # noqa: E402
import tvm_ffi  # noqa: E402
from tilelang import language  # noqa: E402
from tvm import ir, tirx  # noqa: E402

__all__ = ["ffi", "ir", "language", "tilelang", "tirx", "tvm"]

ffi: Any = tvm_ffi


def _blame_callers() -> None:
    """Give statements that TileLang's own macros emit (``T.reduce_*``, ...) the line of the user's call."""
    from tilelang.language.eager.builder import Builder

    original = Builder.set_fileline
    library = os.path.dirname(os.path.abspath(tilelang.__file__)) + os.sep  # noqa: PTH100, PTH120

    def set_fileline(self: Any, filename: str, lineno: int, name: str) -> None:
        if filename.startswith(library):
            for caller in reversed(self.macro_fileline_stack):
                if not caller[0].startswith(library):
                    filename, lineno, name = caller
                    break
        original(self, filename, lineno, name)

    Builder.set_fileline = set_fileline


def _read_textual_hints() -> None:
    """Let annotations use names of the enclosing function under ``from __future__ import annotations``."""
    from tilelang.language.eager import builder

    original = builder.get_type_hints

    def get_type_hints(function: Any) -> Any:
        resolve_annotations(function)
        return original(function)

    builder.get_type_hints = get_type_hints


def _remember_macros() -> None:
    """Let TileLang rewrite the Python functions of its own lowering once instead of at every use."""
    from tilelang.language.eager import builder, utils

    library = os.path.dirname(os.path.abspath(tilelang.__file__))  # noqa: PTH100, PTH120
    builder.mutate = remembering(builder.mutate, utils.get_func_nonlocals, library)


_blame_callers()
_read_textual_hints()
_remember_macros()
