"""What the caller may change about lowering: TileLang's pass configuration and the CUDA compiler's flags."""

from __future__ import annotations

import difflib
import functools
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import BadOption

_FLAGS_KEY = "tl.device_compile_flags"
_FAST_MATH_KEY = "tl.enable_fast_math"
_REGISTER_LEVEL_KEY = "tl.ptxas_register_usage_level"
# flags of nvcc that NVRTC does not know, since it does by itself what they ask for: it compiles all code for the device
_DEFAULTS = (
    "-O2", "-O3", "--ptxas-options=-O3", "--expt-relaxed-constexpr", "-expt-relaxed-constexpr",
    "--expt-extended-lambda", "--extended-lambda", "-extended-lambda",
)  # fmt: skip
_HOST_WARNINGS = "-Wno-"  # to the compiler of host code, of which there is none
_PTXAS = "--ptxas-options="


@dataclass(frozen=True)
class Options:
    """Pass configuration as sorted (key, value) pairs, and flags for NVRTC in order. Built by ``Options.of``."""

    pass_configs: tuple[tuple[str, Any], ...] = ()
    compile_flags: tuple[str, ...] = ()

    @staticmethod
    def of(pass_configs: Mapping[Any, Any] | None = None, compile_flags: str | Iterable[str] | None = None) -> Options:
        """Options from what users write; keys may be ``tilelang.PassConfigKey`` members.

        Raises:
            BadOption: an unknown key (the message names close ones) or a value of another type than the key takes.
        """
        pairs: dict[str, Any] = {}
        for key, value in (pass_configs or {}).items():
            name = str(getattr(key, "value", key))
            _check(name, value)
            pairs[name] = value
        return Options(tuple(sorted(pairs.items(), key=lambda item: item[0])), _flags(compile_flags))

    def merged(self, attrs: Mapping[str, Any]) -> Options:
        """These options on top of those a kernel carries (``T.annotate_pass_configs``, ``T.annotate_compile_flags``).

        Raises:
            BadOption: as ``of``.
        """
        if "tilelang_pass_configs" not in attrs and "tilelang_compile_flags" not in attrs:
            return self
        own = {str(k): _plain(v) for k, v in dict(attrs.get("tilelang_pass_configs", {})).items()}
        flags = [str(flag) for flag in attrs.get("tilelang_compile_flags", ())]
        return Options.of({**own, **dict(self.pass_configs)}, [*flags, *self.compile_flags])

    def compiler_flags(self) -> tuple[str, ...]:
        """Flags for NVRTC: those given, and those that pass configuration keys stand for."""
        configs = dict(self.pass_configs)
        flags = [*_flags(configs.get(_FLAGS_KEY)), *self.compile_flags]
        if configs.get(_FAST_MATH_KEY):
            flags.append("--use_fast_math")
        if configs.get(_REGISTER_LEVEL_KEY) is not None:
            flags.append(f"--ptxas-options=--register-usage-level={int(configs[_REGISTER_LEVEL_KEY])}")
        single = [part for flag in flags for part in _one_by_one(flag)]
        return tuple(flag for flag in single if flag not in _DEFAULTS and not flag.startswith(_HOST_WARNINGS))

    def to_json(self) -> str:
        """Canonical JSON text, for keys."""
        return json.dumps([self.pass_configs, self.compile_flags], sort_keys=True)


def _one_by_one(flag: str) -> list[str]:
    """nvcc splits the options for ptxas at commas, NVRTC takes one at a time."""
    if not flag.startswith(_PTXAS):
        return [flag]
    return [_PTXAS + part for part in flag.removeprefix(_PTXAS).split(",")]


def _flags(flags: str | Iterable[str] | None) -> tuple[str, ...]:
    if flags is None:
        return ()
    if isinstance(flags, str):
        return tuple(shlex.split(flags))
    tokens: list[str] = []
    for flag in flags:
        if not isinstance(flag, str):
            raise BadOption(f"compile flag {flag!r} is not a text", remedy='write flags as texts, such as "-DNAME=1"')
        tokens.extend(shlex.split(flag))
    return tuple(tokens)


@functools.cache
def known_keys() -> Mapping[str, str]:
    """Every pass configuration key that TileLang registered, with the type of its value."""
    from tvm.ir.transform import PassContext

    return {str(key): str(dict(info)["type"]) for key, info in PassContext.list_configs().items()}


def _check(name: str, value: Any) -> None:
    keys = known_keys()
    if name not in keys:
        close = difflib.get_close_matches(name, keys, n=3, cutoff=0.5)
        raise BadOption(
            f"unknown pass configuration key {name!r}",
            remedy=f"did you mean {', '.join(close)}?" if close else "see tilelang.PassConfigKey for the keys",
        )
    expected = _PYTHON_TYPES.get(keys[name], (dict,))
    if not isinstance(value, expected):
        wanted = " or ".join(kind.__name__ for kind in expected)
        raise BadOption(f"pass configuration {name!r} takes {wanted}", values={"got": repr(value)})
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise BadOption(f"pass configuration {name!r} holds a value that JSON cannot express: {error}") from error


_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "ir.IntImm": (bool, int),
    "ir.FloatImm": (float, int),
    "str": (str,),
    "ffi.Array": (list, tuple, str),
}


def _plain(value: Any) -> Any:
    """A value stored in a function attribute as the Python value it was."""
    if isinstance(value, bool | int | float | str):
        return value
    number = getattr(value, "value", None)
    if number is not None:
        return bool(number) if str(getattr(value, "dtype", "")) == "bool" else number
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(item) for item in value]
