"""The epilogue of a matmul in registers: bias and activation on the accumulator, in its own precision."""

from typing import Any

from tilewright.dsl import language as T

SQRT_HALF = 0.7071067811865476

ACTIVATIONS = ("relu", "gelu", "silu")


def relu(x: Any) -> Any:
    """max(x, 0) that keeps NaN, as torch does."""
    return T.if_then_else(x < 0, T.cast(0, x.dtype), x)


def gelu(x: Any) -> Any:
    """x Phi(x) with the error function (torch's default, not the tanh form)."""
    return x * 0.5 * (1.0 + T.erf(x * SQRT_HALF))


def silu(x: Any) -> Any:
    """x / (1 + exp(-x))."""
    return x / (1.0 + T.exp(-x))


def activate(name: str, x: Any) -> Any:
    """The activation named, of an expression."""
    return {"relu": relu, "gelu": gelu, "silu": silu}[name](x)


@T.macro
def apply_epilogue(accumulator: Any, bias: Any, column: Any, activation: str | None) -> Any:
    """Add ``bias`` (False: none) from ``column`` on to each row, then activate."""
    rows, columns = accumulator.shape
    if bias is not False:
        row = T.alloc_fragment((columns,), bias.dtype)
        T.copy(bias[column], row)
        for i, j in T.Parallel(rows, columns):
            accumulator[i, j] += T.cast(row[j], accumulator.dtype)
    if activation is not None:
        for i, j in T.Parallel(rows, columns):
            accumulator[i, j] = activate(activation, accumulator[i, j])
