"""``tw.jit``: TileLang's ``jit`` in its lazy and eager styles, on this package's lowering and devices."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import torch

from tilewright.dsl import Target, resolve_annotations, tilelang, translate_build_errors
from tilewright.schedules import Schedule

from .captured import Captured, freeze
from .context import counters, current_target, target_token
from .errors import JitError, OptionError
from .kernel import Kernel, compile
from .outputs import OutIdx

_FAST_ENTRIES = 4096
_QUICK = frozenset({int, float, bool, str, type(None)})


@dataclass(frozen=True)
class _JitOptions:
    out_idx: OutIdx
    target: Target | None
    schedule: Schedule | None
    pass_configs: Mapping[Any, Any] | None
    compile_flags: Sequence[str] | str | None


@dataclass
class _Variant:
    """The function traced under one state of what it captures, with its kernels."""

    captured: Captured
    traced: Any
    mode: str = "auto"
    kernels: dict[Any, Kernel] = field(default_factory=dict)
    fast: dict[Any, tuple[Kernel, tuple[int, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Promise:
    """The kernel that a lazy function stands for while Dynamo traces: made when the graph is."""

    call: Callable[..., Any]
    values: tuple[Any, ...]
    named: dict[str, Any]

    def __call__(self, *tensors: Any) -> Any:
        return self.call(self.values, self.named, *tensors)


class JitFunction:
    """A function decorated by ``jit``.

    Lazy style (the function returns a ``T.prim_func``): a call returns a ``Kernel``. Eager style (the body is the
    kernel): a call compiles for the arguments and runs. One kernel serves all spellings of the same arguments; a
    changed global, closure value or helper gives a new one.
    """

    def __init__(self, function: Callable[..., Any], options: _JitOptions) -> None:
        self._function = function
        self._options = options
        self._signature = _signature(function)
        resolve_annotations(function)  # now: the frame that defines the function is gone when it is traced
        self._name = function.__name__
        self._lock = threading.RLock()
        self._variants: dict[Any, _Variant] = {}
        self._current: _Variant | None = None
        functools.update_wrapper(self, function)

        def in_graph(*args: Any, **keywords: Any) -> Any:
            return self._run(*args, **keywords)

        def made_in_graph(values: Any, named: Any, *tensors: Any) -> Any:
            return self._run(*values, **named)(*tensors)

        mark: Any = torch.compiler.allow_in_graph  # torch leaves it untyped
        self._in_graph = mark(in_graph)
        self._made_in_graph = mark(made_in_graph)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """A kernel (lazy style), or the result of running it (eager style).

        Raises:
            JitError: the call does not fit the function's signature, or the function is no kernel.
            ArgumentError: a tensor does not fit the kernel (eager style).
        """
        if torch.compiler.is_dynamo_compiling():
            tensors = any(isinstance(value, torch.Tensor) for value in (*args, *keywords.values()))
            return self._in_graph(*args, **keywords) if tensors else _Promise(self._made_in_graph, args, keywords)
        return self._run(*args, **keywords)

    def __repr__(self) -> str:
        return f"<jit {self._function.__qualname__}{self._signature}>"

    def compile(self, *args: Any, **keywords: Any) -> Kernel:
        """The kernel for these arguments, in both styles, without running it."""
        return self._kernel(self._variant(), args, keywords)[0]

    def get_tir(self, *args: Any, **keywords: Any) -> Any:
        """The PrimFunc for these arguments, without lowering it."""
        variant = self._variant()
        self._settle_mode(variant, args, keywords)
        return self._trace(variant, args, keywords)

    def get_kernel_source(self, *args: Any, **keywords: Any) -> str:
        """The CUDA source for these arguments."""
        return self.compile(*args, **keywords).cuda

    def _run(self, *args: Any, **keywords: Any) -> Any:
        variant = self._variant()
        # a fixed target needs no token: reading the environment costs more than hashing the arguments
        token = "" if self._options.target is not None else target_token()
        key = _fast_key(args, token) if not keywords else None
        found = variant.fast.get(key) if key is not None else None
        if found is None:
            kernel, positions = self._kernel(variant, args, keywords)
            if key is not None:
                if len(variant.fast) >= _FAST_ENTRIES:
                    variant.fast.clear()
                variant.fast[key] = (kernel, positions)
        else:
            kernel, positions = found
            counters.add("jit_hits")
        if variant.mode == "lazy":
            return kernel
        if not keywords and len(positions) == len(args):
            return kernel(*args)
        if keywords or max(positions, default=-1) >= len(args):
            return kernel(*self._tensors(variant, args, keywords))
        return kernel(*[args[i] for i in positions])

    def _target_name(self) -> str:
        return (self._options.target or current_target()).name

    def _variant(self) -> _Variant:
        current = self._current
        if current is not None and current.captured.unchanged():
            return current
        with self._lock:
            captured = Captured(self._function)
            variant = self._variants.get(captured.key)
            if variant is None:
                variant = self._variants[captured.key] = _Variant(captured, _traced(self._function))
            variant.captured = captured
            self._current = variant
            return variant

    def _kernel(
        self, variant: _Variant, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Kernel, tuple[int, ...]]:
        with self._lock:
            self._settle_mode(variant, args, keywords)
            key = (self._target_name(), self._call_key(variant, args, keywords))
            positions = tuple(
                i for i, name in enumerate(self._signature.parameters) if name in variant.traced.tensor_args
            )
            kernel = variant.kernels.get(key)
            if kernel is not None:
                counters.add("jit_hits")
                return kernel, positions
            counters.add("jit_misses")
            options = self._options
            kernel = compile(
                self._trace(variant, args, keywords),
                options.schedule,
                options.target,
                out_idx=options.out_idx,
                pass_configs=options.pass_configs,
                compile_flags=options.compile_flags,
            )
            variant.kernels[key] = kernel
            return kernel, positions

    def _trace(self, variant: _Variant, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        with translate_build_errors(self._function):
            return variant.traced.get_tir(*args, **keywords)

    def _settle_mode(self, variant: _Variant, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if variant.mode != "auto":
            return
        with translate_build_errors(self._function):
            lazy = variant.traced._is_lazy_style(*args, **keywords)
        if not lazy and self._options.out_idx is not None:
            raise OptionError(
                f"jit of {self._name}: out_idx is for functions that return a T.prim_func",
                remedy="declare outputs with T.empty in the body and return them",
            )
        variant.mode = "lazy" if lazy else "eager"
        variant.traced.set_mode(variant.mode)

    def _call_key(self, variant: _Variant, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if variant.mode == "lazy":
            return tuple((name, freeze(value)) for name, value in self._bind(args, keywords).items())
        try:
            variant.traced._argument_binder.bind(args, keywords)
        except TypeError as error:
            raise self._misfit(error) from None
        with translate_build_errors(self._function):
            return freeze(variant.traced.parse_args(*args, **keywords)[0])

    def _bind(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **keywords)
        except TypeError as error:
            raise self._misfit(error) from None
        bound.apply_defaults()
        return bound.arguments

    def _misfit(self, error: TypeError) -> JitError:
        return JitError(f"{self._name}{self._signature}: {error}", remedy="call it with the arguments it declares")

    def _tensors(self, variant: _Variant, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        given = {**dict(zip(self._signature.parameters, args, strict=False)), **keywords}
        return [given[name] for name in variant.traced.tensor_args if name in given]


class _TypedCache(dict[Any, Any]):
    """TileLang's cache of templates with keys that tell True, 1 and 1.0 apart."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(freeze(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(freeze(key), value)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(freeze(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """The template under a key, or the default."""
        return super().get(freeze(key), default)


def _fast_key(args: tuple[Any, ...], target: str) -> Any:
    key: list[Any] = [target]
    for value in args:
        kind = type(value)
        if kind is torch.Tensor:
            key.append((value.shape, value.stride(), value.dtype))
        elif kind in _QUICK:
            key.append((kind, value.hex() if kind is float else value))
        else:
            return None
    return tuple(key)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if not inspect.isfunction(function):
        raise JitError(
            f"jit decorates a function, got {type(function).__name__}", remedy="define a function and decorate it"
        )
    return inspect.signature(function)


def _traced(function: Callable[..., Any]) -> Any:
    with translate_build_errors(function):
        traced = tilelang.language.eager.prim_func(function, eager_jit=True)
    traced.p1_cache = _TypedCache()
    return traced


@overload
def jit(function: Callable[..., Any]) -> JitFunction: ...


@overload
def jit(
    *,
    out_idx: OutIdx = None,
    target: Any = None,
    schedule: Schedule | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    **tilelang_only: Any,
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    out_idx: OutIdx = None,
    target: Any = None,
    schedule: Schedule | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    **tilelang_only: Any,
) -> Any:
    """Decorate a TileLang kernel, in lazy or eager style; a drop-in for ``tilelang.jit``.

    Args:
        function: the function, when used without parentheses.
        out_idx: parameters that a call allocates and returns (lazy style).
        target: a target name or ``Target``; ``"auto"``, ``"cuda"`` and None take that of ``use``, else the default.
        schedule: applied before lowering.
        pass_configs: TileLang pass options.
        compile_flags: further flags of the CUDA compiler.
        tilelang_only: TileLang's other options, accepted with the value that changes nothing.

    Raises:
        OptionError: an option that has no meaning here, with what to use in its place.
        JitError: ``function`` is no Python function.
    """
    _check_foreign(tilelang_only)
    options = _JitOptions(out_idx, _target(target), schedule, pass_configs, compile_flags)

    def decorate(inner: Callable[..., Any]) -> JitFunction:
        return JitFunction(inner, options)

    return decorate(function) if function is not None else decorate


_FOREIGN: dict[str, tuple[tuple[Any, ...], str]] = {
    "execution_backend": ((None, "auto"), "kernels are launched by Tilewright's own devices; leave it away"),
    "target_host": ((None,), "there is no host code to compile for; leave it away"),
    "verbose": ((None, False), "read kernel.artifact.log and tw.stats()"),
    "debug_root_path": ((None,), "use kernel.save(path), or read kernel.cuda and kernel.stages"),
}


def _check_foreign(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in _FOREIGN:
            known = ["out_idx", "target", "schedule", "pass_configs", "compile_flags", *_FOREIGN]
            raise OptionError(f"jit has no option {name!r}", remedy=f"its options are {', '.join(known)}")
        neutral, remedy = _FOREIGN[name]
        if value not in neutral:
            raise OptionError(f"jit option {name} = {value!r} means nothing here", remedy=remedy)


def _target(target: Any) -> Target | None:
    if target is None or isinstance(target, Target):
        return target
    if isinstance(target, Mapping):
        kind, arch = target.get("kind", "cuda"), target.get("arch")
        if kind == "cuda":
            return _target(arch or "cuda")
        return Target(str(kind))
    text = str(target)
    if text in ("auto", "cuda"):
        return None
    name = text.rpartition("-arch=")[2].strip()
    return Target("sm_90a" if name == "sm_90" else name)
