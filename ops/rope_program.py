# mypy: disable-error-code="valid-type,name-defined"
"""The rotary program: a block rotates some heads of one token."""

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .symbols import counted


@kernel
def rope_rotate(
    dtype: str = "float16",
    table_dtype: str = "float32",
    head: int = 128,
    half: int = 64,
    interleaved: bool = False,
    placed: bool = False,
    inplace: bool = False,
    heads: int = 16,
    threads: int = 128,
    access: int = 8,
) -> Any:
    """(a, b) -> (a cos - sign b sin, b cos + sign a sin) for pairs of the first 2 ``half`` elements of each head.

    x is (B, S, H, head) with unit inner stride, y the same, dense; ``inplace`` writes x. A pair is (j, half + j), or
    (2 j, 2 j + 1) when ``interleaved``. Token t of B S takes row ``positions[t]`` of cos and sin (P, half) when
    ``placed``, else row t mod ``period``; a row that the tables lack gives NaN.
    """
    b, s, h, p = (T.dynamic(name) for name in ("batch", "length", "count", "table"))
    step_b, step_s, step_h = (counted(f"pitch_{name}", access, "int64") for name in "bsh")
    rest = 0 if inplace else head - 2 * half

    @T.prim_func
    def main(
        x: T.StridedTensor((b, s, h, head), (step_b.extent, step_s.extent, step_h.extent, 1), dtype),
        y: T.Tensor((b, s, h, head), dtype) if not inplace else False,
        cos: T.Tensor((p, half), table_dtype),
        sin: T.Tensor((p, half), table_dtype),
        positions: T.Tensor((b, s), "int32") if placed else False,
        sign: T.float32,
        period: T.int32,
        pitch_b: step_b.variable,
        pitch_s: step_s.variable,
        pitch_h: step_h.variable,
    ) -> None:
        with T.Kernel(b * s * T.ceildiv(h, heads), threads=threads) as block:
            token = block // T.ceildiv(h, heads)
            first = block % T.ceildiv(h, heads) * heads
            one, two = token // s, token % s
            a_l = T.alloc_fragment((heads, half), dtype)
            b_l = T.alloc_fragment((heads, half), dtype)
            cos_l = T.alloc_fragment((half,), "float32")
            sin_l = T.alloc_fragment((half,), "float32")
            row = positions[one, two] if placed else token % period
            table_row(cos, row, p, cos_l)
            table_row(sin, row, p, sin_l)
            read_pairs(x, one, two, first, a_l, b_l, interleaved)
            rotate(a_l, b_l, cos_l, sin_l, sign)
            target = x if inplace else y
            write_pairs(target, one, two, first, a_l, b_l, interleaved)
            if rest > 0:
                rest_l = T.alloc_fragment((heads, rest), dtype)
                T.copy(x[one, two, first, 2 * half], rest_l)
                T.copy(rest_l, target[one, two, first, 2 * half])

    return main.with_attr("global_symbol", f"rope_{head}_{half}")


@T.macro
def table_row(table: Any, row: Any, rows: Any, tile: Any) -> None:
    """A row of a table in float32, NaN where the table has no such row."""
    for j in T.Parallel(tile.shape[0]):
        if row >= 0 and row < rows:
            tile[j] = T.cast(table[row, j], "float32")
        else:
            tile[j] = T.cast(float("nan"), "float32")


@T.macro
def read_pairs(x: Any, one: Any, two: Any, first: Any, a_l: Any, b_l: Any, interleaved: bool) -> None:
    """The pairs of a token's heads from ``first`` on."""
    heads, half = a_l.shape
    if interleaved:
        for i, j in T.Parallel(heads, half):
            if first + i < x.shape[2]:
                a_l[i, j] = x[one, two, first + i, 2 * j]
                b_l[i, j] = x[one, two, first + i, 2 * j + 1]
    else:
        T.copy(x[one, two, first, 0], a_l)
        T.copy(x[one, two, first, half], b_l)


@T.macro
def write_pairs(y: Any, one: Any, two: Any, first: Any, a_l: Any, b_l: Any, interleaved: bool) -> None:
    """The pairs back where ``read_pairs`` finds them."""
    heads, half = a_l.shape
    if interleaved:
        for i, j in T.Parallel(heads, half):
            if first + i < y.shape[2]:
                y[one, two, first + i, 2 * j] = a_l[i, j]
                y[one, two, first + i, 2 * j + 1] = b_l[i, j]
    else:
        T.copy(a_l, y[one, two, first, 0])
        T.copy(b_l, y[one, two, first, half])


@T.macro
def rotate(a_l: Any, b_l: Any, cos_l: Any, sin_l: Any, sign: Any) -> None:
    """Rotate pairs (a, b) in float32."""
    turned = T.alloc_fragment(a_l.shape, "float32")
    for i, j in T.Parallel(*a_l.shape):
        turned[i, j] = T.cast(a_l[i, j], "float32") * cos_l[j] - T.cast(b_l[i, j], "float32") * (sign * sin_l[j])
    for i, j in T.Parallel(*a_l.shape):
        b_l[i, j] = T.cast(
            T.cast(b_l[i, j], "float32") * cos_l[j] + T.cast(a_l[i, j], "float32") * (sign * sin_l[j]), b_l.dtype
        )
    for i, j in T.Parallel(*a_l.shape):
        a_l[i, j] = T.cast(turned[i, j], a_l.dtype)
