"""A tile program: an immutable TIR function with its parameters and the source it came from."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ._tilelang import tirx, tvm
from .dtypes import dtype_name
from .errors import NotAPrimFunc
from .lint import lint_function
from .operations import buffer_shape, extent_of
from .source import function_source
from .spans import keep_func_span, place, stmt_span

if TYPE_CHECKING:
    from .outline import Outline


@dataclass(frozen=True)
class Source:
    """Where a program was written: file, first line, and its text."""

    file: str
    line: int
    text: str = field(repr=False)


@dataclass(frozen=True)
class TensorParam:
    """A tensor parameter; shape and strides (in elements) hold ints, or texts over the shape variables."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    strides: tuple[int | str, ...]


@dataclass(frozen=True)
class ScalarParam:
    """A scalar parameter."""

    name: str
    dtype: str


Param = TensorParam | ScalarParam


@dataclass(frozen=True, eq=False)
class Program:
    """A TIR function, its name, the values its factory was bound with, and its source; equal when the IR is equal.

    ``Program.from_primfunc`` wraps any TileLang PrimFunc; ``KernelFactory.bind`` makes one from a factory.
    """

    func: Any
    name: str
    bindings: Mapping[str, object] = field(default_factory=dict)
    source: Source | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bindings", MappingProxyType(dict(self.bindings)))

    @staticmethod
    def from_primfunc(func: Any) -> Program:
        """Wrap a TileLang PrimFunc, with its annotations made safe for the compiler.

        Raises:
            NotAPrimFunc: ``func`` is something else.
            AnnotationError: an annotation holds a value that TileLang would crash on.
            ImmutableName: the kernel's source assigns a name where the assignment would be lost.
            PipelineError: a pipeline depth below zero.
        """
        require_prim_func(func, "Program.from_primfunc")
        return _wrapped(func)

    @functools.cached_property
    def params(self) -> tuple[Param, ...]:
        """The parameters in the order of the Python signature."""
        return tuple(_param(var, self.func.buffer_map) for var in self.func.params)

    @functools.cached_property
    def variables(self) -> Mapping[str, str]:
        """The shape variables by name, with their dtype.

        ``T.dynamic(name)`` is an int32: an extent of 2**31 or more needs ``T.dynamic(name, "int64")``.
        """
        found: dict[str, str] = {}
        for _, buffer in self.func.buffer_map.items():
            for expr in (*buffer.shape, *buffer.strides):
                for var in tirx.analysis.undefined_vars(expr):
                    found.setdefault(str(var.name), str(var.dtype))
        return MappingProxyType(found)

    def outline(self) -> Outline:
        """The named tree of this program; its text is what ``str`` gives."""
        return self._outline

    @functools.cached_property
    def _outline(self) -> Outline:
        from .outline import outline_of

        return outline_of(self)

    def with_func(self, func: Any) -> Program:
        """The same program with another TIR function; the function's span is restored.

        Raises:
            NotAPrimFunc: ``func`` is something else.
        """
        require_prim_func(func, "Program.with_func")
        if func.same_as(self.func):
            return self
        return Program(keep_func_span(func, self.func), self.name, self.bindings, self.source)

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the IR's text with annotations and source lines, in hexadecimal.

        Variables are numbered in the order of the text, so two builds of one kernel agree.
        """
        digest = hashlib.sha256(self.func.script(show_meta=True).encode())
        digest.update("\n".join(_lines(self.func)).encode())
        return digest.hexdigest()

    def __reduce__(self) -> tuple[object, ...]:
        return (_load, (tvm.ir.save_json(self.func), self.name, dict(self.bindings), self.source))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.name == other.name and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash((self.name, self.fingerprint))


@functools.lru_cache(maxsize=256)  # by identity: TIR is immutable, so the same object needs checking once
def _wrapped(func: Any) -> Program:
    from .rewrite import safe_annotations

    if "orig_func" in vars(func):
        lint_function(func.orig_func, traced=True)
    name = str(func.attrs["global_symbol"]) if func.attrs and "global_symbol" in func.attrs else "main"
    return Program(safe_annotations(func), name, {}, source_of(func))


def _load(text: str, name: str, bindings: dict[str, object], source: Source | None) -> Program:
    return Program(tvm.ir.load_json(text), name, bindings, source)


def require_prim_func(value: Any, where: str) -> None:
    """Refuse everything but a PrimFunc.

    Raises:
        NotAPrimFunc: always for another value.
    """
    if not isinstance(value, tirx.PrimFunc):
        raise NotAPrimFunc(
            f"{where} needs a TileLang PrimFunc, got {type(value).__name__}",
            remedy="decorate the inner function with @T.prim_func and return it",
        )


def source_of(func: Any) -> Source | None:
    """File, line and text of a PrimFunc's Python function, as far as its span tells."""
    where = place(func.span)
    text = function_source(func.orig_func) if "orig_func" in vars(func) else None
    if text is not None:
        return Source(text.file, text.line, text.text)
    return None if where is None else Source(where.file, where.line, "")


def _param(var: Any, buffers: Any) -> Param:
    if var not in buffers:
        return ScalarParam(str(var.name), str(var.dtype))
    buffer = buffers[var]
    shape = buffer_shape(buffer)
    strides = tuple(extent_of(stride) for stride in buffer.strides) or _contiguous(shape)
    return TensorParam(str(buffer.name), dtype_name(buffer.dtype), shape, strides)


def _contiguous(shape: tuple[int | str, ...]) -> tuple[int | str, ...]:
    strides: list[int | str] = []
    stride: int | str = 1
    for extent in reversed(shape):
        strides.append(stride)
        if isinstance(stride, int) and isinstance(extent, int):
            stride = stride * extent
        else:
            stride = str(extent) if stride == 1 else f"{stride} * {extent}"
    return tuple(reversed(strides))


def _lines(func: Any) -> list[str]:
    lines: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Stmt):
            span = stmt_span(node)
            lines.append("-" if span is None else f"{span.source_name.name}:{span.line}")

    tirx.stmt_functor.post_order_visit(func.body, visit)
    return lines
