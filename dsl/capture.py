"""What a kernel's Python code depends on besides its arguments: globals, closures and helper functions, by value."""

from __future__ import annotations

import hashlib
import pickle
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .source import captured_values, function_source

State = tuple[tuple[str, str], ...]

_INSTALLED = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")})


def captured_state(function: Callable[..., Any]) -> State:
    """Everything the code of ``function`` reads from outside, as (name, value digest), sorted by name.

    Functions of the user's own modules are followed: their code, and what they read in turn. Installed libraries
    count by name and version of their file. A changed constant, helper or closure value changes the result.
    """
    found: dict[str, str] = {}
    _function(function, found, set())
    return tuple(sorted(found.items()))


def digest(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _function(function: Any, found: dict[str, str], seen: set[int]) -> None:
    function = _unwrapped(function)
    if id(function) in seen or not isinstance(function, types.FunctionType):
        return
    seen.add(id(function))
    name = f"{function.__module__}.{function.__qualname__}"
    source = function_source(function)
    found[name] = digest(source.text if source is not None else _code_text(function.__code__))
    if function.__defaults__ or function.__kwdefaults__:
        found[f"{name}()"] = _value((function.__defaults__, function.__kwdefaults__), found, seen)
    for key, value in _reads(function):
        found[f"{name}:{key}"] = _value(value, found, seen)


def _unwrapped(value: Any) -> Any:
    """The Python function inside a macro, a traced function or a decorator."""
    for attribute in ("orig_func", "factory", "__wrapped__", "__func__"):
        inner = getattr(value, attribute, None)
        if isinstance(inner, types.FunctionType):
            return inner
    return value


def _reads(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    yield from captured_values(function).items()
    for code in _nested(function.__code__):
        for name in code.co_names:
            if name in function.__globals__:
                value = function.__globals__[name]
                yield name, value
                if isinstance(value, types.ModuleType) and not _installed(value):
                    yield from _attributes(name, value, code.co_names)


def _attributes(name: str, module: types.ModuleType, names: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for attribute in names:
        if attribute in vars(module):
            yield f"{name}.{attribute}", vars(module)[attribute]


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _code_text(code: types.CodeType) -> str:
    inner = [_code_text(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    plain = [repr(part) for part in code.co_consts if not isinstance(part, types.CodeType)]
    return repr((code.co_code.hex(), code.co_names, plain, inner))


def _installed(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is None or file.startswith(_INSTALLED)


def _value(value: object, found: dict[str, str], seen: set[int]) -> str:
    inner = _unwrapped(value)
    if isinstance(inner, types.FunctionType):
        module = sys.modules.get(inner.__module__)
        if module is None or not _installed(module):
            _function(inner, found, seen)
        return f"function {inner.__module__}.{inner.__qualname__}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__} {_version(value)}"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(_value(part, found, seen) for part in value)})"
    if isinstance(value, dict):
        parts = (f"{key!r}: {_value(part, found, seen)}" for key, part in value.items())
        return f"dict({', '.join(parts)})"
    return _plain(value)


def _array_bytes(value: Any, kind: str) -> bytes | None:
    if kind in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        flat = value.detach().cpu().contiguous().reshape(-1)
        content: bytes = flat.view(sys.modules["torch"].uint8).numpy().tobytes()
        return content
    return value.tobytes() if kind.startswith("numpy.") and hasattr(value, "tobytes") else None


def _version(module: types.ModuleType) -> str:
    version = getattr(module, "__version__", None)
    if version is not None:
        return str(version)
    file = getattr(module, "__file__", None)
    return "" if file is None or not _installed(module) else Path(file).name


def _plain(value: object) -> str:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    content = _array_bytes(value, kind)
    if content is not None:  # an array's repr leaves elements out
        return (
            f"{kind} {hashlib.sha256(content).hexdigest()} {getattr(value, 'dtype', '')}{getattr(value, 'shape', '')}"
        )
    text = repr(value)
    if " at 0x" not in text and len(text) < 2000:
        return f"{kind} {text}"
    try:
        return f"{kind} {hashlib.sha256(pickle.dumps(value)).hexdigest()}"
    except Exception:  # an object that cannot be pickled counts by its type and state
        return f"{kind} {sorted(map(str, getattr(value, '__dict__', {}).items()))}"
