"""Matrix products: operand scopes, dtypes the matrix units combine, and tile sizes they cover.

Sources: PTX ISA, ``mma.sync`` and ``wgmma.mma_async`` data types; TileLang's instruction selection for CUDA.
"""

from __future__ import annotations

import functools
import itertools

from ..dtypes import bits, is_fp8
from ..errors import DtypeError, ScopeError, ShapeMismatch, TileError
from ..operations import Gemm, Region, shape_text
from ..target import Target
from ._context import Launch, Placed

_FP8 = ("float8_e4m3fn", "float8_e4m3", "float8_e5m2")
_SHARED = ("shared", "shared.dyn")
_FRAGMENT = ("local.fragment",)

Triple = tuple[str, str, str]


@functools.cache
def legal_triples(target: Target) -> tuple[Triple, ...]:
    """The (A, B, accumulator) dtypes that the matrix units of a target combine."""
    triples = [
        ("float16", "float16", "float16"),
        ("float16", "float16", "float32"),
        ("bfloat16", "bfloat16", "float32"),
        ("float32", "float32", "float32"),
        ("tfloat32", "tfloat32", "float32"),
        ("int8", "int8", "int32"),
        ("uint8", "uint8", "int32"),
    ]
    if target.has_wgmma:
        triples += [("int8", "uint8", "int32"), ("uint8", "int8", "int32")]
    else:
        triples += [(name, name, "int32") for name in ("int4", "uint4")] + [("float64", "float64", "float64")]
    if target.has_fp8_mma:
        triples += itertools.product(_FP8, _FP8, ("float16", "float32"))
    return tuple(triples)


def check_gemms(launch: Launch) -> None:
    """Scopes, shapes, dtypes and tile sizes of every matrix product.

    Raises:
        ScopeError: an operand in a scope that matrix units do not read.
        ShapeMismatch: M, N or K differ between the operands.
        DtypeError: dtypes that the target does not combine; the message lists those it does.
        TileError: M, N or K that no instruction divides.
    """
    for placed, gemm in launch.gemms():
        _check_scopes(placed, gemm)
        _check_shapes(placed, gemm)
        _check_dtypes(placed, gemm, launch.target)
        _check_tile(placed, gemm)


def _check_scopes(placed: Placed, gemm: Gemm) -> None:
    for side, region, allowed in (
        ("A", gemm.a, (*_SHARED, *_FRAGMENT, "shared.tmem")),
        ("B", gemm.b, (*_SHARED, *_FRAGMENT)),
        ("C", gemm.c, _FRAGMENT),
    ):
        if region.scope in allowed:
            continue
        need = "a fragment (T.alloc_fragment)" if side == "C" else "in shared memory or a fragment"
        raise ScopeError(
            f"{placed.entry.label}: operand {side} must be {need}", span=placed.span,
            values={region.name: region.scope}, remedy=f"copy {region.name} there first" if side != "C" else
            f"accumulate in a fragment and copy it to {region.name}",
        )  # fmt: skip


def _check_shapes(placed: Placed, gemm: Gemm) -> None:
    a, b = _matrix(gemm.a, gemm.transpose_a), _matrix(gemm.b, gemm.transpose_b)
    c = _matrix(gemm.c, False)
    if ((a[0], b[1]) == c and a[1] == b[0]) or any(isinstance(extent, str) for extent in (*a, *b, *c)):
        return
    raise ShapeMismatch(
        f"{placed.entry.label}: A {shape_text(a)} times B {shape_text(b)} does not give C {shape_text(c)}",
        span=placed.span, values={region.name: shape_text(region.extents) for region in (gemm.a, gemm.b, gemm.c)},
        remedy="A is (M, K), B is (K, N), C is (M, N), after transpose_A and transpose_B",
    )  # fmt: skip


def _matrix(region: Region, transposed: bool) -> tuple[int | str, int | str]:
    rows, columns = region.extents[-2:]
    return (columns, rows) if transposed else (rows, columns)


def _check_dtypes(placed: Placed, gemm: Gemm, target: Target) -> None:
    seen = (gemm.a.dtype, gemm.b.dtype, gemm.c.dtype)
    legal = legal_triples(target)
    if seen in legal:
        return
    if (is_fp8(seen[0]) or is_fp8(seen[1])) and not target.has_fp8_mma:
        what, remedy = f"{target.name} has no 8-bit float matrix units", "use sm_89 or sm_90a, or convert to float16"
    else:
        related = [triple for triple in legal if set(triple[:2]) & set(seen[:2])] or list(legal)
        listed = dict.fromkeys(f"{a} x {b} -> {c}" for a, b, c in related)
        what = f"{target.name} cannot multiply {seen[0]} by {seen[1]} into {seen[2]}"
        remedy = f"legal: {', '.join(listed)}"
    raise DtypeError(
        f"{placed.entry.label}: {what}", span=placed.span, remedy=remedy,
        values={region.name: region.dtype for region in (gemm.a, gemm.b, gemm.c)},
    )  # fmt: skip


def _check_tile(placed: Placed, gemm: Gemm) -> None:
    depth = max(4, 256 // bits(gemm.a.dtype))
    for side, extent, step in (("M", gemm.m, 16), ("N", gemm.n, 8), ("K", gemm.k, depth)):
        if extent > 0 and extent % step == 0:
            continue
        nearest = max(step, (extent + step - 1) // step * step)
        raise TileError(
            f"{placed.entry.label}: {side} = {extent} is not a multiple of {step}", span=placed.span,
            values={"tile": f"{gemm.m}x{gemm.n}x{gemm.k}", "dtype": gemm.a.dtype},
            remedy=f"one {gemm.a.dtype} matrix instruction covers {step} along {side}: use {side} = {nearest}",
        )  # fmt: skip
