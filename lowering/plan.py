"""The launch plan: everything needed to launch an artifact's kernels, on the CUDA driver or the virtual GPU alike.

Sizes are expressions over the shape variables (``sources`` says where each is read). Strides of tensor arguments are in
elements; strides of tensor maps in bytes. Element type names are those of TileLang (``float16``, ``float8_e4m3fn``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import BadPlan
from .expression import Expression

VERSION = 1
AS_READ = Expression("x", ("x",))


@dataclass(frozen=True)
class TensorArgument:
    """A tensor parameter of the kernel. ``strides`` None means contiguous (row major, no gaps).

    A ``workspace`` (``T.alloc_global``) is no parameter of the user's: each call allocates it, and drops it.
    """

    name: str
    dtype: str
    shape: tuple[Expression, ...]
    strides: tuple[Expression, ...] | None = None
    read: bool = True
    written: bool = True
    workspace: bool = False


@dataclass(frozen=True)
class ScalarArgument:
    """A number passed by value."""

    name: str
    dtype: str


@dataclass(frozen=True)
class PointerArgument:
    """A bare address (``T.ptr``): a tensor whose shape is not declared, or an integer. ``dtype`` may be ``void``."""

    name: str
    dtype: str


@dataclass(frozen=True)
class VariableSource:
    """Where a variable is read: ``kind`` is ``shape``, ``stride`` (``axis`` counts from 0) or ``scalar`` (axis -1).

    ``value`` is the variable's value in terms of ``x``, the number found there (``x // 8`` for a dimension ``K8 * 8``);
    ``dtype`` is the type that the kernel computes with it in.
    """

    variable: str
    argument: str
    kind: str
    axis: int
    value: Expression = AS_READ
    dtype: str = "int32"


@dataclass(frozen=True)
class PointerParameter:
    """A device parameter: the address of the first element of the argument named."""

    tensor: str


@dataclass(frozen=True)
class ScalarParameter:
    """A device parameter: a number of the type ``dtype``."""

    name: str
    dtype: str
    value: Expression


@dataclass(frozen=True)
class TensorMapParameter:
    """A device parameter: a 128-byte tensor map, as ``cuTensorMapEncodeTiled`` or ``...Im2col`` makes it.

    ``dims``, ``strides``, ``box`` and ``element_strides`` start with the innermost dimension; ``strides`` are bytes and
    leave the innermost out. ``interleave`` to ``oob_fill`` are the CUDA driver's enumerators. Corners are those of the
    bounding box of im2col mode, empty in tiled mode; ``box`` is then (channels of a pixel, pixels of a column).
    """

    name: str
    tensor: str
    dtype: str
    dims: tuple[Expression, ...]
    strides: tuple[Expression, ...]
    box: tuple[Expression, ...]
    element_strides: tuple[Expression, ...]
    interleave: int
    swizzle: int
    l2_promotion: int
    oob_fill: int
    lower_corner: tuple[int, ...] = ()
    upper_corner: tuple[int, ...] = ()


Argument = TensorArgument | ScalarArgument | PointerArgument
Parameter = PointerParameter | ScalarParameter | TensorMapParameter


@dataclass(frozen=True)
class KernelLaunch:
    """One kernel launch: ``parameters`` in device order, ``grid`` and ``block`` (x, y, z), shared memory in bytes."""

    kernel: str
    grid: tuple[Expression, Expression, Expression]
    block: tuple[Expression, Expression, Expression]
    cluster: tuple[int, int, int] | None
    dynamic_shared: Expression
    parameters: tuple[Parameter, ...]
    cooperative: bool = False
    programmatic: bool = False


@dataclass(frozen=True)
class LaunchPlan:
    """Arguments in the order of the user's signature, then workspaces; the shape variables; the launches in order.

    ``sources`` covers every name that an expression of the plan reads: shape variables first, then scalar arguments.
    """

    name: str
    arguments: tuple[Argument, ...]
    variables: tuple[str, ...]
    launches: tuple[KernelLaunch, ...]
    sources: tuple[VariableSource, ...] = ()

    def argument(self, name: str) -> Argument:
        """The argument of that name (KeyError if there is none)."""
        return {a.name: a for a in self.arguments}[name]

    def to_json(self) -> dict[str, Any]:
        """A JSON-able record; ``from_json`` gives back an equal plan."""
        return {
            "version": VERSION,
            "name": self.name,
            "arguments": [_write(a) for a in self.arguments],
            "variables": list(self.variables),
            "launches": [_write(launch) for launch in self.launches],
            "sources": [_write(s) for s in self.sources],
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> LaunchPlan:
        """The plan that ``to_json`` wrote.

        Raises:
            BadPlan: the record has another form or version.
        """
        try:
            if record["version"] != VERSION:
                raise BadPlan(f"launch plan of version {record['version']}, this package reads {VERSION}")
            return LaunchPlan(
                record["name"],
                tuple(_read(a) for a in record["arguments"]),
                tuple(record["variables"]),
                tuple(_read(launch) for launch in record["launches"]),
                tuple(_read(s) for s in record["sources"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise BadPlan(f"not a launch plan: {type(error).__name__} {error}") from error


_KINDS: Mapping[str, Callable[..., Any]] = {
    kind.__name__: kind
    for kind in (
        TensorArgument,
        ScalarArgument,
        PointerArgument,
        VariableSource,
        PointerParameter,
        ScalarParameter,
        TensorMapParameter,
        KernelLaunch,
    )
}


def _write(value: Any) -> Any:
    if isinstance(value, Expression):
        return {"e": value.text, "v": list(value.variables)} if value.variables else {"e": value.text}
    if isinstance(value, tuple):
        return [_write(item) for item in value]
    if type(value).__name__ in _KINDS:
        return {"type": type(value).__name__, **{name: _write(item) for name, item in vars(value).items()}}
    return value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "e" in value:
        return Expression(value["e"], tuple(value.get("v", ())))
    fields = {name: _read(item) for name, item in value.items() if name != "type"}
    return _KINDS[value["type"]](**fields)
