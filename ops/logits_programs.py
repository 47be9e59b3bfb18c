# mypy: disable-error-code="valid-type,name-defined"
"""The programs that losses over rows of logits share: statistics of a row, read once, and the gradient from them."""

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .row_steps import add_piece, begin_sum, fold_piece, logits_of
from .symbols import counted

LOG_SUM, PICKED, SPREAD, SUM = range(4)  # rows of the statistics
CURVE, SLOPE, HIT, SHIFT = range(4)  # rows of the coefficients


@kernel
def logits_statistics(
    dtype: str = "float16",
    index_dtype: str = "int64",
    spread: bool = False,
    summed: bool = False,
    rows: int = 1,
    width: int = 4096,
    threads: int = 256,
    access: int = 8,
) -> Any:
    """Statistics (4, M), float32, of the rows z = scale x of logits x (M, N) with a row pitch; each is read once.

    Row 0: log sum exp(z). Row 1: z at the row's target, NaN where it is no column. Row 2, when ``spread``: the entropy
    of exp(z) / sum, where 0 log 0 is 0. Row 3, when ``summed``: sum(z).
    """
    m = T.dynamic("m")
    n = counted("columns", access).extent
    step = counted("pitch_x", access, "int64")

    @T.prim_func
    def main(
        x: T.StridedTensor((m, n), (step.extent, 1), dtype),
        target: T.Tensor((m,), index_dtype),
        statistics: T.Tensor((4, m), "float32"),
        scale: T.float32,
        pitch_x: step.variable,
    ) -> None:
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            x_l = T.alloc_fragment((rows, width), dtype)
            v = T.alloc_fragment((rows, width), "float32")
            top, total, moment, everything, picked = (T.alloc_fragment((rows,), "float32") for _ in range(5))
            begin_sum(top, total)
            if spread:
                T.clear(moment)
            if summed:
                T.clear(everything)
            for piece in T.serial(T.ceildiv(n, width)):
                T.copy(x[block * rows, piece * width], x_l)
                if summed:
                    add_scaled(x_l, v, everything, scale)
                logits_of(x_l, v, piece * width, n, scale)
                fold_with_moment(x_l, v, top, total, moment, scale, spread)
            pick(x, target, picked, block * rows, scale)
            T.copy(picked, statistics[PICKED, block * rows])
            if spread:
                for i in T.Parallel(rows):
                    moment[i] = T.log(total[i]) - moment[i] / total[i]
                T.copy(moment, statistics[SPREAD, block * rows])
            for i in T.Parallel(rows):
                top[i] = top[i] + T.log(total[i])
            T.copy(top, statistics[LOG_SUM, block * rows])
            if summed:
                T.copy(everything, statistics[SUM, block * rows])

    return main.with_attr("global_symbol", f"logits_statistics_{width}")


@T.macro
def add_scaled(x_l: Any, v: Any, total: Any, scale: Any) -> None:
    """Total += the sum of each row of scale x_l; v is overwritten."""
    for i, j in T.Parallel(*v.shape):
        v[i, j] = T.cast(x_l[i, j], "float32") * scale
    add_piece(v, total)


@T.macro
def fold_with_moment(x_l: Any, v: Any, top: Any, total: Any, moment: Any, scale: Any, spread: bool) -> None:
    """``fold_piece``, which also keeps moment = sum(exp(z - top) (z - top)) when ``spread``."""
    if spread:
        after = T.alloc_fragment(top.shape, "float32")
        T.reduce_max(v, after, dim=1)
        for i in T.Parallel(top.shape[0]):
            after[i] = T.max(after[i], top[i])
        for i in T.Parallel(top.shape[0]):
            if total[i] > 0.0 and after[i] > top[i]:
                moment[i] = (moment[i] + total[i] * (top[i] - after[i])) * T.exp(top[i] - after[i])
    fold_piece(v, top, total)
    if spread:
        for i, j in T.Parallel(*v.shape):
            v[i, j] = T.if_then_else(v[i, j] == 0.0, 0.0, v[i, j] * (T.cast(x_l[i, j], "float32") * scale - top[i]))
        add_piece(v, moment)


@T.macro
def pick(x: Any, target: Any, picked: Any, first: Any, scale: Any) -> None:
    """The logit of each row's target, NaN where it is no column."""
    for i in T.Parallel(picked.shape[0]):
        picked[i] = T.cast(float("nan"), "float32")
        if first + i < x.shape[0]:
            index = target[first + i]
            if index >= 0 and index < x.shape[1]:
                picked[i] = T.cast(x[first + i, index], "float32") * scale


@kernel
def logits_gradient(
    dtype: str = "float16",
    out_dtype: str = "float16",
    index_dtype: str = "int64",
    curved: bool = False,
    rows: int = 1,
    width: int = 1024,
    threads: int = 128,
    access: int = 8,
) -> Any:
    """dx = p (slope + curve log p) + shift, plus hit at the row's target, where p = exp(scale x - log sum).

    Coefficients (4, M) are float32: curve, slope, hit, shift. ``curved`` False: curve is 0. Where p is 0, p log p is 0;
    a row of zero coefficients gives 0 whatever x holds. x has a row pitch, dx is dense.
    """
    m = T.dynamic("m")
    n = counted("columns", access).extent
    step = counted("pitch_x", access, "int64")

    @T.prim_func
    def main(
        x: T.StridedTensor((m, n), (step.extent, 1), dtype),
        target: T.Tensor((m,), index_dtype),
        log_sum: T.Tensor((m,), "float32"),
        coefficients: T.Tensor((4, m), "float32"),
        dx: T.Tensor((m, n), out_dtype),
        scale: T.float32,
        pitch_x: step.variable,
    ) -> None:
        with T.Kernel(T.ceildiv(m, rows) * T.ceildiv(n, width), threads=threads) as block:
            row = block // T.ceildiv(n, width) * rows
            column = block % T.ceildiv(n, width) * width
            x_l = T.alloc_fragment((rows, width), dtype)
            v = T.alloc_fragment((rows, width), "float32")
            dx_l = T.alloc_fragment((rows, width), out_dtype)
            target_l = T.alloc_fragment((rows,), index_dtype)
            log_l, slope, hit, shift, curve = (T.alloc_fragment((rows,), "float32") for _ in range(5))
            T.copy(x[row, column], x_l)
            T.copy(target[row], target_l)
            T.copy(log_sum[row], log_l)
            T.copy(coefficients[SLOPE, row], slope)
            T.copy(coefficients[HIT, row], hit)
            T.copy(coefficients[SHIFT, row], shift)
            for i, j in T.Parallel(rows, width):
                v[i, j] = T.cast(x_l[i, j], "float32") * scale - log_l[i]
            if curved:
                T.copy(coefficients[CURVE, row], curve)
                for i, j in T.Parallel(rows, width):
                    v[i, j] = T.if_then_else(
                        (slope[i] == 0.0 and curve[i] == 0.0) or v[i, j] == -T.infinity("float32"),
                        0.0,
                        T.exp(v[i, j]) * (slope[i] + curve[i] * v[i, j]),
                    )
            else:
                for i, j in T.Parallel(rows, width):
                    v[i, j] = T.if_then_else(slope[i] == 0.0, 0.0, T.exp(v[i, j]) * slope[i])
            for i, j in T.Parallel(rows, width):
                v[i, j] = v[i, j] + shift[i] + T.if_then_else(column + j == target_l[i], hit[i], 0.0)
            T.copy(v, dx_l)
            T.copy(dx_l, dx[row, column])

    return main.with_attr("global_symbol", f"logits_gradient_{width}")
