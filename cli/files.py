"""``path.py:factory``: the objects of a user's file."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilewright.errors import SourceSpan, TilewrightError

from .errors import BadFile, unknown

if TYPE_CHECKING:
    from tilewright.schedules import Schedule


def load_module(path: Path) -> ModuleType:
    """The module of a Python file, run anew; its folder is on ``sys.path`` as for ``python path.py``.

    Raises:
        BadFile: there is no such file, or running it raised.
    """
    if not path.is_file():
        raise BadFile(f"there is no file {path}", remedy="a subject is an operator's name or path.py:factory")
    name = f"tilewright_subject_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadFile(f"{path} is not a Python file", remedy="a subject is an operator's name or path.py:factory")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except TilewrightError:
        raise
    except Exception as error:
        raise BadFile(f"{path} raised {type(error).__name__}: {error}", span=_line(error, path)) from error
    finally:
        sys.path.pop(0)
    return module


def _line(error: Exception, path: Path) -> SourceSpan | None:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return SourceSpan(str(path), error.lineno or 1, error.offset or 0)
    trace, found = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            found = SourceSpan(str(path), trace.tb_lineno)
        trace = trace.tb_next
    return found


def load_factory(module: ModuleType, path: Path, name: str) -> Any:
    """The object ``name`` of a module: a ``tw.kernel``, a ``tw.jit`` kernel, a function, a Program or a PrimFunc.

    Raises:
        UnknownName: the module has no such name; the message lists the kernels that it has.
    """
    if not hasattr(module, name):
        raise unknown(f"kernel in {path}:", name, kernels_of(module))
    return getattr(module, name)


def kernels_of(module: ModuleType) -> list[str]:
    """The names in a module that may be subjects: what it defines itself and can be called or compiled."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and not inspect.isclass(value)
        and name != "reference"
        and getattr(value, "__module__", None) == module.__name__
    ]


def reference_of(module: ModuleType) -> Callable[..., Any] | None:
    """The function ``reference`` of a module, if it has one."""
    value = getattr(module, "reference", None)
    return value if inspect.isfunction(value) else None


def load_schedule(path: str | None) -> Schedule | None:
    """The schedule in a JSON file.

    Raises:
        BadFile: the file cannot be read or is no JSON.
    """
    if path is None:
        return None
    from tilewright.schedules import Schedule

    try:
        text = Path(path).read_text()
        json.loads(text)
    except (OSError, ValueError) as error:
        raise BadFile(
            f"--schedule {path} cannot be read: {error}", remedy="write one with Schedule.to_json()"
        ) from None
    return Schedule.from_json(text)
