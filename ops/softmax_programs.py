# mypy: disable-error-code="valid-type,name-defined"
"""The softmax programs: rows that fit stay in registers, longer ones are read twice in pieces."""

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .row_steps import add_piece, begin_sum, fold_piece, logits_of
from .symbols import counted


@kernel
def softmax_forward(
    dtype: str = "float16", rows: int = 1, width: int = 4096, threads: int = 256, access: int = 8, whole: bool = True
) -> Any:
    """y = exp(x - max(x)) / sum(exp(x - max(x))), row by row.

    x is (M, N) with a row pitch, y (M, N) dense. ``whole``: N is at most ``width``, and a row is read once; else it is
    read twice, ``width`` columns at a time.
    """
    m = T.dynamic("m")
    n = counted("columns", access).extent
    step = counted("pitch_x", access, "int64")

    @T.prim_func
    def main(
        x: T.StridedTensor((m, n), (step.extent, 1), dtype),
        y: T.Tensor((m, n), dtype),
        pitch_x: step.variable,
    ) -> None:
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            x_l = T.alloc_fragment((rows, width), dtype)
            v = T.alloc_fragment((rows, width), "float32")
            top = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            begin_sum(top, total)
            pieces = 1 if whole else T.ceildiv(n, width)
            for piece in T.serial(pieces):
                T.copy(x[block * rows, piece * width], x_l)
                logits_of(x_l, v, piece * width, n, 1.0)
                fold_piece(v, top, total)
            for piece in T.serial(pieces):
                if not whole:
                    T.copy(x[block * rows, piece * width], x_l)
                    for i, j in T.Parallel(rows, width):
                        v[i, j] = T.exp(T.cast(x_l[i, j], "float32") - top[i])
                for i, j in T.Parallel(rows, width):
                    v[i, j] = v[i, j] / total[i]
                T.copy(v, x_l)
                T.copy(x_l, y[block * rows, piece * width])

    return main.with_attr("global_symbol", f"softmax_{width}{'' if whole else '_long'}")


@kernel
def softmax_backward(
    dtype: str = "float16", rows: int = 1, width: int = 4096, threads: int = 256, access: int = 8, whole: bool = True
) -> Any:
    """dx = y (dy - sum(y dy)), row by row; ``dy`` and ``y`` have a row pitch, ``dx`` is dense."""
    m = T.dynamic("m")
    n = counted("columns", access).extent
    step_d, step_y = (counted(f"pitch_{name}", access, "int64") for name in "dy")

    @T.prim_func
    def main(
        dy: T.StridedTensor((m, n), (step_d.extent, 1), dtype),
        y: T.StridedTensor((m, n), (step_y.extent, 1), dtype),
        dx: T.Tensor((m, n), dtype),
        pitch_d: step_d.variable,
        pitch_y: step_y.variable,
    ) -> None:
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            d_l = T.alloc_fragment((rows, width), dtype)
            y_l = T.alloc_fragment((rows, width), dtype)
            v = T.alloc_fragment((rows, width), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.clear(total)
            pieces = 1 if whole else T.ceildiv(n, width)
            for piece in T.serial(pieces):
                T.copy(dy[block * rows, piece * width], d_l)
                T.copy(y[block * rows, piece * width], y_l)
                for i, j in T.Parallel(rows, width):
                    v[i, j] = T.cast(d_l[i, j], "float32") * T.cast(y_l[i, j], "float32")
                add_piece(v, total)
            for piece in T.serial(pieces):
                if not whole:
                    T.copy(dy[block * rows, piece * width], d_l)
                    T.copy(y[block * rows, piece * width], y_l)
                for i, j in T.Parallel(rows, width):
                    v[i, j] = T.cast(y_l[i, j], "float32") * (T.cast(d_l[i, j], "float32") - total[i])
                T.copy(v, d_l)
                T.copy(d_l, dx[block * rows, piece * width])

    return main.with_attr("global_symbol", f"softmax_backward_{width}{'' if whole else '_long'}")
