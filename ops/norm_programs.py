# mypy: disable-error-code="valid-type,name-defined"
"""The forward programs of RMSNorm and LayerNorm: a row stays in registers, read and written once."""

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .gemm_epilogue import apply_epilogue
from .norm_steps import add_residual, deviations, row_scale, scaled, widened
from .symbols import counted


@kernel
def rms_forward(
    dtype: str = "float16",
    weight_dtype: str | None = "float16",
    residual: bool = False,
    rows: int = 1,
    width: int = 4096,
    threads: int = 256,
    access: int = 8,
) -> Any:
    """y = weight x / sqrt(mean(x^2) + eps), row by row.

    x is (M, N) with a row pitch, y (M, N) dense, weight (N,); ``residual`` is added to x first, and the sum, rounded to
    the dtype, written to ``total``. ``rstd`` is (M,) float32, kept for the backward pass.
    """
    m = T.dynamic("m")
    n = counted("columns", access).extent
    step_x, step_r = (counted(name, access, "int64") for name in ("pitch_x", "pitch_r"))

    @T.prim_func
    def main(
        x: T.StridedTensor((m, n), (step_x.extent, 1), dtype),
        other: T.StridedTensor((m, n), (step_r.extent, 1), dtype) if residual else False,
        weight: T.Tensor((n,), weight_dtype) if weight_dtype else False,
        y: T.Tensor((m, n), dtype),
        total: T.Tensor((m, n), dtype) if residual else False,
        rstd: T.Tensor((m,), "float32"),
        eps: T.float32,
        pitch_x: step_x.variable,
        pitch_r: step_r.variable if residual else False,
    ) -> None:
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            x_l = T.alloc_fragment((rows, width), dtype)
            v = T.alloc_fragment((rows, width), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            T.copy(x[block * rows, 0], x_l)
            add_residual(x_l, other, total, block * rows)
            widened(x_l, v)
            for i, j in T.Parallel(rows, width):
                v[i, j] = v[i, j] * v[i, j]
            row_scale(v, scale, n, eps)
            T.copy(scale, rstd[block * rows])
            for i, j in T.Parallel(rows, width):
                v[i, j] = T.cast(x_l[i, j], "float32") * scale[i]
            scaled(v, weight)
            T.copy(v, x_l)
            T.copy(x_l, y[block * rows, 0])

    return main.with_attr("global_symbol", f"rms_norm_{width}")


@kernel
def layer_forward(
    dtype: str = "float16",
    weight_dtype: str | None = "float16",
    bias_dtype: str | None = "float16",
    residual: bool = False,
    rows: int = 1,
    width: int = 4096,
    threads: int = 256,
    access: int = 8,
) -> Any:
    """y = weight (x - mean) / sqrt(var + eps) + bias, row by row; tensors as in ``rms_forward``, ``mean`` like rstd."""
    m = T.dynamic("m")
    n = counted("columns", access).extent
    step_x, step_r = (counted(name, access, "int64") for name in ("pitch_x", "pitch_r"))

    @T.prim_func
    def main(
        x: T.StridedTensor((m, n), (step_x.extent, 1), dtype),
        other: T.StridedTensor((m, n), (step_r.extent, 1), dtype) if residual else False,
        weight: T.Tensor((n,), weight_dtype) if weight_dtype else False,
        bias: T.Tensor((n,), bias_dtype) if bias_dtype else False,
        y: T.Tensor((m, n), dtype),
        total: T.Tensor((m, n), dtype) if residual else False,
        mean: T.Tensor((m,), "float32"),
        rstd: T.Tensor((m,), "float32"),
        eps: T.float32,
        pitch_x: step_x.variable,
        pitch_r: step_r.variable if residual else False,
    ) -> None:
        with T.Kernel(T.ceildiv(m, rows), threads=threads) as block:
            x_l = T.alloc_fragment((rows, width), dtype)
            v = T.alloc_fragment((rows, width), "float32")
            centre = T.alloc_fragment((rows,), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            T.copy(x[block * rows, 0], x_l)
            add_residual(x_l, other, total, block * rows)
            widened(x_l, v)
            T.reduce_sum(v, centre, dim=1)
            for i in T.Parallel(rows):
                centre[i] = centre[i] / T.cast(n, "float32")
            T.copy(centre, mean[block * rows])
            deviations(x_l, centre, v, n)
            for i, j in T.Parallel(rows, width):
                v[i, j] = v[i, j] * v[i, j]
            row_scale(v, scale, n, eps)
            T.copy(scale, rstd[block * rows])
            for i, j in T.Parallel(rows, width):
                v[i, j] = (T.cast(x_l[i, j], "float32") - centre[i]) * scale[i]
            scaled(v, weight)
            apply_epilogue(v, bias, 0, None)
            T.copy(v, x_l)
            T.copy(x_l, y[block * rows, 0])

    return main.with_attr("global_symbol", f"layer_norm_{width}")
