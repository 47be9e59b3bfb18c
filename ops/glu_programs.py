# mypy: disable-error-code="valid-type,name-defined"
"""The programs of gated activations, elementwise: each block takes one piece of a few rows."""

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .gemm_epilogue import SQRT_HALF
from .symbols import counted

_INVERSE_SQRT_2PI = 0.3989422804014327
_TANH_SCALE = 0.7978845608028654  # sqrt(2 / pi)
_TANH_CUBIC = 0.044715


def gate_and_slope(kind: str, x: Any) -> tuple[Any, Any]:
    """The activation of an expression and its derivative: ``silu``, ``gelu`` or ``gelu_tanh`` (arXiv 1606.08415)."""
    if kind == "silu":
        s = 1.0 / (1.0 + T.exp(-x))
        return x * s, s * (1.0 + x * (1.0 - s))
    if kind == "gelu":
        phi = 0.5 * (1.0 + T.erf(x * SQRT_HALF))
        return x * phi, phi + x * T.exp(-0.5 * x * x) * _INVERSE_SQRT_2PI
    t = T.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * x * x))
    slope = _TANH_SCALE * (1.0 + 3.0 * _TANH_CUBIC * x * x)
    return 0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope


@kernel
def glu_forward(
    kind: str = "silu", dtype: str = "float16", rows: int = 1, width: int = 1024, threads: int = 128, access: int = 8
) -> Any:
    """y = activation(gate) up; gate and up are (M, N) with row pitches, y is dense."""
    m = T.dynamic("m")
    n = counted("columns", access).extent
    step_g, step_u = (counted(f"pitch_{name}", access, "int64") for name in "gu")

    @T.prim_func
    def main(
        gate: T.StridedTensor((m, n), (step_g.extent, 1), dtype),
        up: T.StridedTensor((m, n), (step_u.extent, 1), dtype),
        y: T.Tensor((m, n), dtype),
        pitch_g: step_g.variable,
        pitch_u: step_u.variable,
    ) -> None:
        with T.Kernel(T.ceildiv(m, rows) * T.ceildiv(n, width), threads=threads) as block:
            row = block // T.ceildiv(n, width) * rows
            column = block % T.ceildiv(n, width) * width
            gate_l = T.alloc_fragment((rows, width), dtype)
            up_l = T.alloc_fragment((rows, width), dtype)
            T.copy(gate[row, column], gate_l)
            T.copy(up[row, column], up_l)
            for i, j in T.Parallel(rows, width):
                up_l[i, j] = T.cast(
                    gate_and_slope(kind, T.cast(gate_l[i, j], "float32"))[0] * T.cast(up_l[i, j], "float32"), dtype
                )
            T.copy(up_l, y[row, column])

    return main.with_attr("global_symbol", f"{kind}_glu_{width}")


@kernel
def glu_backward(
    kind: str = "silu", dtype: str = "float16", rows: int = 1, width: int = 1024, threads: int = 128, access: int = 8
) -> Any:
    """dgate = dy up activation'(gate) and dup = dy activation(gate), dense; the others have row pitches."""
    m = T.dynamic("m")
    n = counted("columns", access).extent
    step_d, step_g, step_u = (counted(f"pitch_{name}", access, "int64") for name in "dgu")

    @T.prim_func
    def main(
        dy: T.StridedTensor((m, n), (step_d.extent, 1), dtype),
        gate: T.StridedTensor((m, n), (step_g.extent, 1), dtype),
        up: T.StridedTensor((m, n), (step_u.extent, 1), dtype),
        dgate: T.Tensor((m, n), dtype),
        dup: T.Tensor((m, n), dtype),
        pitch_d: step_d.variable,
        pitch_g: step_g.variable,
        pitch_u: step_u.variable,
    ) -> None:
        with T.Kernel(T.ceildiv(m, rows) * T.ceildiv(n, width), threads=threads) as block:
            row = block // T.ceildiv(n, width) * rows
            column = block % T.ceildiv(n, width) * width
            dy_l = T.alloc_fragment((rows, width), dtype)
            gate_l = T.alloc_fragment((rows, width), dtype)
            up_l = T.alloc_fragment((rows, width), dtype)
            slope = T.alloc_fragment((rows, width), "float32")
            T.copy(dy[row, column], dy_l)
            T.copy(gate[row, column], gate_l)
            T.copy(up[row, column], up_l)
            for i, j in T.Parallel(rows, width):
                slope[i, j] = gate_and_slope(kind, T.cast(gate_l[i, j], "float32"))[1]
            for i, j in T.Parallel(rows, width):
                slope[i, j] = slope[i, j] * T.cast(up_l[i, j], "float32") * T.cast(dy_l[i, j], "float32")
            for i, j in T.Parallel(rows, width):
                up_l[i, j] = T.cast(
                    gate_and_slope(kind, T.cast(gate_l[i, j], "float32"))[0] * T.cast(dy_l[i, j], "float32"), dtype
                )
            T.copy(slope, gate_l)
            T.copy(gate_l, dgate[row, column])
            T.copy(up_l, dup[row, column])

    return main.with_attr("global_symbol", f"{kind}_glu_backward_{width}")
