"""Kernel factories: plain Python functions that return a ``T.prim_func``, bound to sizes, dtypes and tiles."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from .build import translate_build_errors
from .capture import State, captured_state, digest
from .errors import NotAPrimFunc, ParameterError
from .lint import lint_function
from .program import Program

_REQUIRED = inspect.Parameter.empty


class KernelFactory:
    """A kernel factory; ``bind`` traces it anew each time, so captured values are never stale.

    Attributes:
        parameters: name -> default, ``KernelFactory.required`` where there is none.
    """

    required: Any = _REQUIRED

    def __init__(self, factory: Callable[..., Any]) -> None:
        if not inspect.isfunction(factory):
            raise ParameterError(
                f"tw.kernel decorates a function, got {type(factory).__name__}",
                remedy="define a function that returns a T.prim_func",
            )
        self._factory = factory
        self._signature = inspect.signature(factory)
        self.__name__ = factory.__name__
        self.__qualname__, self.__module__, self.__doc__ = factory.__qualname__, factory.__module__, factory.__doc__

    @property
    def factory(self) -> Callable[..., Any]:
        """The decorated function."""
        return self._factory

    @property
    def parameters(self) -> Mapping[str, object]:
        """The parameters by name, with their defaults."""
        return MappingProxyType({name: entry.default for name, entry in self._signature.parameters.items()})

    def bind(self, **values: object) -> Program:
        """Trace the factory with these values.

        Raises:
            ParameterError: an unknown or a missing parameter.
            NotAPrimFunc: the factory returned something else than a PrimFunc.
            DslError: the kernel's code is wrong; the message names its line.
        """
        bound = self._complete(values)
        lint_function(self._factory, traced=False, values=bound)
        with translate_build_errors():
            func = self._factory(**bound)
        return self._program(func, bound)

    def captured_state(self) -> State:
        """What the factory reads from outside (globals, closures, helpers), as sorted (name, digest) pairs."""
        return captured_state(self._factory)

    def fingerprint(self) -> str:
        """SHA-256 of the factory's code and captured state; changes when a helper or a global constant changes."""
        return digest(repr(self.captured_state()))

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}{self._signature}>"

    def _complete(self, values: Mapping[str, object]) -> dict[str, object]:
        known = self._signature.parameters
        unknown = [name for name in values if name not in known]
        if unknown:
            close = difflib.get_close_matches(unknown[0], known, n=1)
            raise ParameterError(
                f"kernel {self.__name__!r} has no parameter {unknown[0]!r}"
                + (f"; did you mean {close[0]!r}?" if close else ""),
                remedy=f"its parameters are {', '.join(known)}",
            )
        missing = [name for name, entry in known.items() if entry.default is _REQUIRED and name not in values]
        if missing:
            raise ParameterError(
                f"kernel {self.__name__!r} needs a value for {', '.join(missing)}",
                remedy=f"call bind({', '.join(f'{name}=...' for name in missing)})",
            )
        return {name: values.get(name, entry.default) for name, entry in known.items()}

    def _program(self, func: Any, bound: Mapping[str, object]) -> Program:
        try:
            program = Program.from_primfunc(func)
        except NotAPrimFunc:
            raise NotAPrimFunc(
                f"kernel {self.__name__!r} returned {type(func).__name__}, not a T.prim_func",
                remedy="end the factory with: return main",
            ) from None
        return Program(program.func, self.__name__, bound, program.source)


def kernel(factory: Callable[..., Any]) -> KernelFactory:
    """Decorate a factory: a function of sizes, dtypes and tiles that returns a ``T.prim_func``."""
    return KernelFactory(factory)
