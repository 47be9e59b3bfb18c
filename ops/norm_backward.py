# mypy: disable-error-code="valid-type,name-defined"
"""The backward program of RMSNorm and LayerNorm: each row is read once, parameter gradients are summed per block."""

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .norm_steps import accumulated, normalised, plus_row, row_gradient, row_or_ones, widened, written
from .symbols import counted


@kernel
def norm_backward(
    kind: str = "rms",
    dtype: str = "float16",
    weight_dtype: str | None = "float16",
    biased: bool = False,
    residual: bool = False,
    width: int = 4096,
    threads: int = 256,
    access: int = 8,
) -> Any:
    """Gradients of ``rms_forward`` and ``layer_forward``: dx, and sums over a share of the rows for dweight and dbias.

    With g = weight dy and h = (x - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)) + dtotal, where ``rms`` has no
    mean(g). Block b takes rows b, b + blocks, ... and writes row b of ``dweight`` (blocks, N) and ``dbias``, float32.
    """
    m, blocks = T.dynamic("m"), T.dynamic("blocks")
    n = counted("columns", access).extent
    step_y, step_x, step_t = (counted(f"pitch_{tensor}", access, "int64") for tensor in "yxt")
    centred = kind == "layer"

    @T.prim_func
    def main(
        dy: T.StridedTensor((m, n), (step_y.extent, 1), dtype),
        dtotal: T.StridedTensor((m, n), (step_t.extent, 1), dtype) if residual else False,
        x: T.StridedTensor((m, n), (step_x.extent, 1), dtype),
        weight: T.Tensor((n,), weight_dtype) if weight_dtype else False,
        mean: T.Tensor((m,), "float32") if centred else False,
        rstd: T.Tensor((m,), "float32"),
        dx: T.Tensor((m, n), dtype),
        dweight: T.Tensor((blocks, n), "float32") if weight_dtype else False,
        dbias: T.Tensor((blocks, n), "float32") if biased else False,
        pitch_y: step_y.variable,
        pitch_x: step_x.variable,
        pitch_t: step_t.variable if residual else False,
        blocks: blocks,
    ) -> None:
        with T.Kernel(blocks, threads=threads) as block:
            x_l = T.alloc_fragment((1, width), dtype)
            dy_l = T.alloc_fragment((1, width), dtype)
            g = T.alloc_fragment((1, width), "float32")
            h = T.alloc_fragment((1, width), "float32")
            product = T.alloc_fragment((1, width), "float32")
            weight_l = T.alloc_fragment((1, width), "float32")
            dweight_l = T.alloc_fragment((1, width), "float32")
            dbias_l = T.alloc_fragment((1, width), "float32")
            T.clear(dweight_l)
            T.clear(dbias_l)
            row_or_ones(weight, weight_l, n)
            for row in T.serial(block, m, blocks):
                T.copy(x[row, 0], x_l)
                T.copy(dy[row, 0], dy_l)
                widened(dy_l, g)
                normalised(x_l, mean, rstd, row, h)
                accumulated(dbias_l, g, False)
                accumulated(dweight_l, g, h)
                for i, j in T.Parallel(1, width):
                    g[i, j] = g[i, j] * weight_l[i, j]
                row_gradient(g, h, product, rstd, row, n, centred)
                plus_row(g, dy_l, dtotal, row)
                T.copy(g, x_l)
                T.copy(x_l, dx[row, 0])
            written(dweight_l, dweight, block)
            written(dbias_l, dbias, block)

    return main.with_attr("global_symbol", f"{kind}_norm_backward_{width}")
