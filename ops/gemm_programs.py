# mypy: disable-error-code="valid-type,name-defined"
"""The tensor-core matmul program: one tile of C a block, operands through shared memory, epilogue in registers."""

from typing import Any

from tilewright.dsl import kernel
from tilewright.dsl import language as T

from .gemm_epilogue import apply_epilogue
from .gemm_symbols import gemm_symbols, kernel_name


@kernel
def gemm_mma(
    unit: str = "mma",
    dtype: str = "float16",
    accumulator: str = "float32",
    out_dtype: str = "float16",
    transpose_a: bool = False,
    transpose_b: bool = False,
    load: str = "tma",
    store: str = "tma",
    bias_dtype: str | None = None,
    activation: str | None = None,
    tile_m: int = 128,
    tile_n: int = 128,
    tile_k: int = 64,
) -> Any:
    """C = activation(A @ B + bias), batched, of any size: every extent, pitch and batch stride is a variable.

    A is (batch_a, M, K), or (batch_a, K, M) when ``transpose_a``; B is (batch_b, K, N), or (batch_b, N, K) when
    ``transpose_b``; the last dimension has stride 1. A batch of 1 is read by every matrix of C. Pitches and batch
    strides are scalars counted in the width of one global access, which ``load`` and ``store`` name: ``tma``, or bytes.
    ``unit`` is ``mma`` for mma.sync or ``wgmma`` where the target and the layouts allow it.
    """
    s = gemm_symbols(dtype, out_dtype, transpose_a, transpose_b, load, store)
    hint_load, hint_store = {"disable_tma": T.bool(load != "tma")}, {"disable_tma": T.bool(store != "tma")}
    shared_a = (tile_k, tile_m) if transpose_a else (tile_m, tile_k)
    shared_b = (tile_n, tile_k) if transpose_b else (tile_k, tile_n)
    bias_param = T.Tensor((s.n,), bias_dtype) if bias_dtype else False

    @T.prim_func
    def main(
        A: T.StridedTensor(s.shape_a, s.strides_a, dtype),
        B: T.StridedTensor(s.shape_b, s.strides_b, dtype),
        bias: bias_param,
        C: T.StridedTensor(s.shape_c, s.strides_c, out_dtype),
        pitch_a: s.pitch_a,
        pitch_b: s.pitch_b,
        pitch_c: s.pitch_c,
        stride_a: s.stride_a,
        stride_b: s.stride_b,
        stride_c: s.stride_c,
    ) -> None:
        with T.Kernel(T.ceildiv(s.n, tile_n), T.ceildiv(s.m, tile_m), s.batch, threads=128) as (bx, by, bz):
            A_s = T.alloc_shared(shared_a, dtype)
            B_s = T.alloc_shared(shared_b, dtype)
            C_s = T.alloc_shared((tile_m, tile_n), out_dtype)
            C_l = T.alloc_fragment((tile_m, tile_n), accumulator)
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(s.k, tile_k)):
                if transpose_a:
                    T.copy(A[T.min(bz, s.batch_a - 1), k * tile_k, by * tile_m], A_s, annotations=hint_load)
                else:
                    T.copy(A[T.min(bz, s.batch_a - 1), by * tile_m, k * tile_k], A_s, annotations=hint_load)
                if transpose_b:
                    T.copy(B[T.min(bz, s.batch_b - 1), bx * tile_n, k * tile_k], B_s, annotations=hint_load)
                else:
                    T.copy(B[T.min(bz, s.batch_b - 1), k * tile_k, bx * tile_n], B_s, annotations=hint_load)
                T.gemm(A_s, B_s, C_l, transpose_A=transpose_a, transpose_B=transpose_b)
            apply_epilogue(C_l, bias, bx * tile_n, activation)
            T.copy(C_l, C_s)
            T.copy(C_s, C[bz, by * tile_m, bx * tile_n], annotations=hint_store)

    name = kernel_name(unit, dtype, transpose_a, transpose_b, load, store, bias_dtype, activation)
    named = main.with_attr("global_symbol", f"{name}_{tile_m}x{tile_n}x{tile_k}")
    return named.with_attr("tilelang_pass_configs", {"tl.disable_wgmma": True}) if unit == "mma" else named
