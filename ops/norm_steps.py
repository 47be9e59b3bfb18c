"""Steps that the norm programs share; a tensor that a program does without is False, and its step does nothing."""

from typing import Any

from tilewright.dsl import language as T


@T.macro
def add_residual(x_l: Any, other: Any, total: Any, row: Any) -> None:
    """x_l += other, rounded, and written to total."""
    if other is not False:
        other_l = T.alloc_fragment(x_l.shape, x_l.dtype)
        T.copy(other[row, 0], other_l)
        for i, j in T.Parallel(*x_l.shape):
            x_l[i, j] = T.cast(T.cast(x_l[i, j], "float32") + T.cast(other_l[i, j], "float32"), x_l.dtype)
        T.copy(x_l, total[row, 0])


@T.macro
def widened(x_l: Any, v: Any) -> None:
    """V = x_l in float32."""
    for i, j in T.Parallel(*x_l.shape):
        v[i, j] = T.cast(x_l[i, j], "float32")


@T.macro
def deviations(x_l: Any, centre: Any, v: Any, n: Any) -> None:
    """V = x_l - centre, and 0 beyond the row's end, so that sums over the tile are sums over the row."""
    for i, j in T.Parallel(*x_l.shape):
        v[i, j] = T.if_then_else(j < n, T.cast(x_l[i, j], "float32") - centre[i], 0.0)


@T.macro
def row_scale(squares: Any, scale: Any, n: Any, eps: Any) -> None:
    """Scale = 1 / sqrt(mean(squares) + eps); rsqrt would be off by two units."""
    T.reduce_sum(squares, scale, dim=1)
    for i in T.Parallel(scale.shape[0]):
        scale[i] = 1.0 / T.sqrt(scale[i] / T.cast(n, "float32") + eps)


@T.macro
def scaled(v: Any, weight: Any) -> None:
    """V *= weight, column by column."""
    if weight is not False:
        weight_l = T.alloc_fragment((v.shape[1],), weight.dtype)
        T.copy(weight[0], weight_l)
        for i, j in T.Parallel(*v.shape):
            v[i, j] = v[i, j] * T.cast(weight_l[j], "float32")


@T.macro
def normalised(x_l: Any, mean: Any, rstd: Any, row: Any, h: Any) -> None:
    """H = (x_l - mean) rstd of one row; without a mean x_l rstd."""
    if mean is not False:
        for i, j in T.Parallel(*h.shape):
            h[i, j] = (T.cast(x_l[i, j], "float32") - mean[row]) * rstd[row]
    else:
        for i, j in T.Parallel(*h.shape):
            h[i, j] = T.cast(x_l[i, j], "float32") * rstd[row]


@T.macro
def row_gradient(g: Any, h: Any, product: Any, rstd: Any, row: Any, n: Any, centred: bool) -> None:
    """G = rstd (g - mean(g) - h mean(g h)) over one row of n; not ``centred``: without mean(g)."""
    slope = T.alloc_fragment((1,), "float32")
    offset = T.alloc_fragment((1,), "float32")
    for i, j in T.Parallel(*g.shape):
        product[i, j] = g[i, j] * h[i, j]
    T.reduce_sum(product, slope, dim=1)
    if centred:
        T.reduce_sum(g, offset, dim=1)
        for i in T.Parallel(1):
            offset[i] = offset[i] / T.cast(n, "float32")
    else:
        T.clear(offset)
    for i in T.Parallel(1):
        slope[i] = slope[i] / T.cast(n, "float32")
    for i, j in T.Parallel(*g.shape):
        g[i, j] = rstd[row] * (g[i, j] - offset[i] - h[i, j] * slope[i])


@T.macro
def accumulated(total: Any, g: Any, h: Any) -> None:
    """Total += g h, or g where h is False."""
    if h is not False:
        for i, j in T.Parallel(*g.shape):
            total[i, j] = total[i, j] + g[i, j] * h[i, j]
    else:
        for i, j in T.Parallel(*g.shape):
            total[i, j] = total[i, j] + g[i, j]


@T.macro
def plus_row(g: Any, tile: Any, other: Any, row: Any) -> None:
    """G += row of other, which passes through ``tile``."""
    if other is not False:
        T.copy(other[row, 0], tile)
        for i, j in T.Parallel(*g.shape):
            g[i, j] = g[i, j] + T.cast(tile[i, j], "float32")


@T.macro
def row_or_ones(vector: Any, tile: Any, n: Any) -> None:
    """The vector of n elements as the row of a float32 tile, zeros beyond its end; ones where there is no vector."""
    if vector is not False:
        for i, j in T.Parallel(*tile.shape):
            tile[i, j] = T.if_then_else(j < n, T.cast(vector[j], "float32"), 0.0)
    else:
        T.fill(tile, 1.0)


@T.macro
def written(tile: Any, matrix: Any, row: Any) -> None:
    """A row of a matrix = tile."""
    if matrix is not False:
        T.copy(tile, matrix[row, 0])
