# mypy: disable-error-code="valid-type,name-defined"
"""The float32 matmul program of full accuracy: fused multiply-adds, each thread a grid of accumulators in registers."""

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .gemm_epilogue import activate
from .gemm_symbols import gemm_symbols, kernel_name

SIDE = 16  # threads along M and along N
STEP = 4  # float32 values of one 16-byte shared access


def position(lane: Any, index: Any, packed: bool) -> Any:
    """Where a thread's value ``index`` lies in the tile: groups of STEP neighbours when packed, else SIDE apart."""
    if packed:
        return (index // STEP) * (SIDE * STEP) + lane * STEP + index % STEP
    return index * SIDE + lane


def tile_shape(extent: int, depth: int, packed: bool) -> tuple[int, int]:
    """Shared tile of an operand: (k, extent) when packed; else (extent, k) with padded rows, so that banks differ."""
    return (depth, extent) if packed else (extent, depth + STEP)


@T.macro
def load_step(values: Any, tile: Any, step: Any, lane: Any, packed: bool) -> Any:
    """Bring STEP values of k for each of the thread's rows (or columns) into registers, 16 bytes an access."""
    if packed:
        for q in T.unroll(STEP):
            for g in T.unroll(values.shape[1] // STEP):
                for v in T.vectorized(STEP):
                    values[q, g * STEP + v] = tile[step * STEP + q, position(lane, g * STEP, True) + v]
    else:
        for i in T.unroll(values.shape[0]):
            for v in T.vectorized(STEP):
                values[i, v] = tile[position(lane, i, False), step * STEP + v]


@T.macro
def multiply(C_l: Any, A_l: Any, B_l: Any, packed: Any) -> Any:
    """STEP values of k of every accumulator."""
    for q in T.unroll(STEP):
        for i in T.unroll(C_l.shape[0]):
            for j in T.unroll(C_l.shape[1]):
                a = A_l[q, i] if packed[0] else A_l[i, q]
                b = B_l[q, j] if packed[1] else B_l[j, q]
                C_l[i, j] += a * b


@T.macro
def finish(C_l: Any, C_s: Any, bias: Any, column: Any, n: Any, lanes: Any, packed: Any, activation: str | None) -> Any:
    """Bias and activation on the accumulators, then into the shared tile of C."""
    for i in T.unroll(C_l.shape[0]):
        for j in T.unroll(C_l.shape[1]):
            if bias is not False:  # noqa: SIM102 (one is Python's, the other the kernel's)
                if column + position(lanes[1], j, packed[1]) < n:
                    C_l[i, j] += T.cast(bias[column + position(lanes[1], j, packed[1])], "float32")
            if activation is not None:
                C_l[i, j] = activate(activation, C_l[i, j])
            C_s[position(lanes[0], i, packed[0]), position(lanes[1], j, packed[1])] = T.cast(C_l[i, j], C_s.dtype)


@kernel
def gemm_fma(
    out_dtype: str = "float32",
    transpose_a: bool = False,
    transpose_b: bool = False,
    load: str = "16",
    store: str = "16",
    bias_dtype: str | None = None,
    activation: str | None = None,
    tile_m: int = 128,
    tile_n: int = 128,
    tile_k: int = 16,
) -> Any:
    """C = activation(A @ B + bias) in float32 throughout; parameters, shapes and scalars as ``gemm_mma``."""
    s = gemm_symbols("float32", out_dtype, transpose_a, transpose_b, load, store)
    plain = {"disable_tma": T.bool(True)}
    packed = (transpose_a, not transpose_b)
    shape_a, shape_b = tile_shape(tile_m, tile_k, packed[0]), tile_shape(tile_n, tile_k, packed[1])
    rows, columns = tile_m // SIDE, tile_n // SIDE
    bias_param = T.Tensor((s.n,), bias_dtype) if bias_dtype else False

    @T.prim_func
    def main(
        A: T.StridedTensor(s.shape_a, s.strides_a, "float32"),
        B: T.StridedTensor(s.shape_b, s.strides_b, "float32"),
        bias: bias_param,
        C: T.StridedTensor(s.shape_c, s.strides_c, out_dtype),
        pitch_a: s.pitch_a,
        pitch_b: s.pitch_b,
        pitch_c: s.pitch_c,
        stride_a: s.stride_a,
        stride_b: s.stride_b,
        stride_c: s.stride_c,
    ) -> None:
        with T.Kernel(T.ceildiv(s.n, tile_n), T.ceildiv(s.m, tile_m), s.batch, threads=SIDE * SIDE) as (bx, by, bz):
            A_s = T.alloc_shared(shape_a, "float32")
            B_s = T.alloc_shared(shape_b, "float32")
            C_s = T.alloc_shared((tile_m, tile_n), out_dtype)
            C_l = T.alloc_local((rows, columns), "float32")
            A_l = T.alloc_local((STEP, rows) if packed[0] else (rows, STEP), "float32")
            B_l = T.alloc_local((STEP, columns) if packed[1] else (columns, STEP), "float32")
            thread = T.get_thread_binding()
            lanes = (thread // SIDE, thread % SIDE)
            for i, j in T.grid(rows, columns):
                C_l[i, j] = 0.0
            for k in T.Pipelined(T.ceildiv(s.k, tile_k)):
                if transpose_a:
                    T.copy(A[T.min(bz, s.batch_a - 1), k * tile_k, by * tile_m], A_s, annotations=plain)
                else:
                    T.copy(A[T.min(bz, s.batch_a - 1), by * tile_m, k * tile_k], A_s[:, :tile_k], annotations=plain)
                if transpose_b:
                    T.copy(B[T.min(bz, s.batch_b - 1), bx * tile_n, k * tile_k], B_s[:, :tile_k], annotations=plain)
                else:
                    T.copy(B[T.min(bz, s.batch_b - 1), k * tile_k, bx * tile_n], B_s, annotations=plain)
                for step in T.serial(tile_k // STEP):
                    load_step(A_l, A_s, step, lanes[0], packed[0])
                    load_step(B_l, B_s, step, lanes[1], packed[1])
                    multiply(C_l, A_l, B_l, packed)
            finish(C_l, C_s, bias, bx * tile_n, s.n, lanes, packed, activation)
            T.copy(C_s, C[bz, by * tile_m, bx * tile_n], annotations=plain)

    name = kernel_name("fma", "float32", transpose_a, transpose_b, load, store, bias_dtype, activation)
    return main.with_attr("global_symbol", f"{name}_{tile_m}x{tile_n}x{tile_k}")
