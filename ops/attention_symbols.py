"""The size variables of the attention programs: lengths, heads and strides, which no kernel is compiled for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.dsl import language as T

from .symbols import counted

ACCESS = 8  # elements of a 16-byte access: strides are counted in them


@dataclass(frozen=True)
class Strides:
    """Scalar parameters of one tensor (batch, rows, heads, dim), and the strides that they stand for."""

    batch: Any
    row: Any
    head: Any
    extents: tuple[Any, Any, Any, int]


@dataclass(frozen=True)
class AttentionSymbols:
    """Sizes and strides of one attention problem."""

    batch: Any
    boundaries: Any
    queries: Any
    keys: Any
    heads: Any
    heads_kv: Any
    shape_q: tuple[Any, ...]
    shape_k: tuple[Any, ...]
    shape_v: tuple[Any, ...]
    q: Strides
    k: Strides
    v: Strides

    @property
    def strides_q(self) -> tuple[Any, Any, Any, int]:
        """Strides of q."""
        return self.q.extents

    @property
    def strides_k(self) -> tuple[Any, Any, Any, int]:
        """Strides of k."""
        return self.k.extents

    @property
    def strides_v(self) -> tuple[Any, Any, Any, int]:
        """Strides of v."""
        return self.v.extents


def strides(name: str) -> Strides:
    """The strides of one tensor."""
    batch, row, head = (counted(f"{name}_{axis}", ACCESS, "int64") for axis in ("batch", "row", "head"))
    return Strides(batch.variable, row.variable, head.variable, (batch.extent, row.extent, head.extent, 1))


def attention_symbols(dim: int, dim_v: int) -> AttentionSymbols:
    """The variables of a problem with heads of ``dim`` (queries and keys) and ``dim_v`` (values) elements."""
    batch, boundaries, queries, keys, heads, heads_kv = (
        T.dynamic(n) for n in ("batch", "boundaries", "queries", "keys", "heads", "heads_kv")
    )
    return AttentionSymbols(
        batch=batch,
        boundaries=boundaries,
        queries=queries,
        keys=keys,
        heads=heads,
        heads_kv=heads_kv,
        shape_q=(batch, queries, heads, dim),
        shape_k=(batch, keys, heads_kv, dim),
        shape_v=(batch, keys, heads_kv, dim_v),
        q=strides("q"),
        k=strides("k"),
        v=strides("v"),
    )
