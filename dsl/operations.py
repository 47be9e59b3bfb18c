"""Tile operations read from their TIR calls: name, operand regions, and the scalar arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._tilelang import tirx
from .dtypes import dtype_name

_ACCESS = {1: "r", 2: "w", 3: "rw"}
_TILE_OP = "tl.tileop."
_RENAMED = {
    "atomicadd": "atomic_add",
    "atomicmax": "atomic_max",
    "atomicmin": "atomic_min",
    "finalize_reducer_v2": "finalize_reducer",
    "tvm_storage_sync": "sync_threads",
    "ptx_wait_group": "cp_async_wait_group",
    "ptx_commit_group": "cp_async_commit_group",
}
COPIES = ("copy", "async_copy", "tma_copy", "ascend_copy")
GEMMS = ("gemm", "wgmma_gemm", "tcgen05_gemm")
_BY_SOURCE = ("reduce_", "cumsum", "cummax")


@dataclass(frozen=True, eq=False)
class Region:
    """The part of a buffer an operand covers: first element and extent per dimension, and how it is accessed."""

    buffer: Any
    access: str
    begins: tuple[Any, ...]
    extents: tuple[int | str, ...]

    @property
    def name(self) -> str:
        """The buffer's name."""
        return str(self.buffer.name)

    @property
    def dtype(self) -> str:
        """The buffer's dtype."""
        return dtype_name(self.buffer.dtype)

    @property
    def scope(self) -> str:
        """The buffer's memory scope."""
        return str(self.buffer.scope())

    @property
    def tile(self) -> tuple[int | str, ...]:
        """The extents without those of length one."""
        return tuple(extent for extent in self.extents if extent != 1)

    @property
    def whole(self) -> bool:
        """Whether the region is the whole buffer."""
        return self.extents == buffer_shape(self.buffer)

    def __str__(self) -> str:
        if self.whole:
            return self.name
        return f"{self.name}[{', '.join(map(str, self.begins))}]"


@dataclass(frozen=True, eq=False)
class Operation:
    """One tile operation: its name in the language, operand regions in order, and constants by position."""

    name: str
    regions: tuple[Region, ...]
    values: tuple[object, ...]
    annotations: Mapping[str, object] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """What the label names: ``src->dst`` of a copy, the source of a reduction, else the destination."""
        if not self.regions:
            return ""
        if self.name in COPIES and len(self.regions) == 2:
            return f"{self.regions[0].name}->{self.regions[1].name}"
        if self.name.startswith(_BY_SOURCE):
            return self.regions[0].name
        if self.name in GEMMS or self.name.startswith("gemm"):
            return self.regions[2].name
        written = [region for region in self.regions if "w" in region.access]
        return (written or self.regions)[0].name

    @property
    def label(self) -> str:
        """The label before duplicates are numbered."""
        return f"{self.name} {self.subject}".rstrip()


@dataclass(frozen=True, eq=False)
class Gemm:
    """A matrix product operation, decoded: ``C[m, n] (+)= A[m, k] @ B[k, n]``."""

    name: str
    a: Region
    b: Region
    c: Region
    transpose_a: bool
    transpose_b: bool
    m: int
    n: int
    k: int
    policy: str
    clear: bool


_POLICIES = {0: "Square", 1: "FullRow", 2: "FullCol"}


def gemm_of(operation: Operation) -> Gemm:
    """The operands of a gemm operation (positional protocol of ``tl.tileop.gemm``)."""
    a, b, c = operation.regions[:3]
    ta, tb, m, n, k, policy, clear = operation.values[:7]
    return Gemm(
        operation.name, a, b, c, bool(ta), bool(tb), _int(m), _int(n), _int(k), _POLICIES.get(_int(policy), "?"),
        clear is True or clear == 1,
    )  # fmt: skip


def _int(value: object) -> int:
    return value if isinstance(value, int) else -1


def is_call(stmt: Any) -> bool:
    """Whether a statement evaluates a call."""
    return isinstance(stmt, tirx.Evaluate) and isinstance(stmt.value, tirx.Call)


def operation_of(call: Any) -> Operation:
    """The operation a call stands for."""
    name = _name(call)
    regions = tuple(region for arg in call.args for region in _region(arg))
    values = tuple(scalar(arg) for arg in call.args if not isinstance(arg, tirx.Call))
    if name == "reduce":
        name = f"reduce_{values[0]}"
    elif name == "fill" and values and values[0] == 0:
        name = "clear"
    return Operation(name, regions, values, {str(key): value for key, value in call.annotations.items()})


def _name(call: Any) -> str:
    full = str(call.op.name)
    name = full.removeprefix(_TILE_OP) if full.startswith(_TILE_OP) else full.rpartition(".")[2]
    return _RENAMED.get(name, name.removesuffix("_elem_op"))


def _region(arg: Any) -> list[Region]:
    if not isinstance(arg, tirx.Call):
        return []
    kind = str(getattr(arg.op, "name", ""))
    if kind == "tl.region":
        load, access, *extents = arg.args
        return [Region(load.buffer, _ACCESS.get(int(access), "?"), tuple(load.indices), tuple(map(extent_of, extents)))]
    if kind == "tl.access_ptr":
        load, _, access = arg.args
        return [Region(load.buffer, _ACCESS.get(int(access), "?"), tuple(load.indices), (1,) * len(load.indices))]
    return []


def scalar(arg: Any) -> object:
    """A constant argument as a Python value, anything else as text."""
    if isinstance(arg, tirx.IntImm):
        return bool(arg.value) if str(arg.dtype) == "bool" else int(arg.value)
    if isinstance(arg, (tirx.FloatImm, tirx.StringImm)):
        value: object = arg.value
        return value
    return str(arg)


def extent_of(expr: Any) -> int | str:
    """A constant extent as int, anything else as text over its variables."""
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    return expr if isinstance(expr, int) else str(expr)


def shape_text(shape: tuple[int | str, ...]) -> str:
    """A shape written as a Python tuple."""
    return f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"


def buffer_shape(buffer: Any) -> tuple[int | str, ...]:
    """A buffer's shape with constants as ints."""
    return tuple(extent_of(extent) for extent in buffer.shape)
