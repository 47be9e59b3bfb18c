"""wmma: CUDA C with <mma.h>, every shape, type and layout, against products in float64 and integers."""

import itertools

import numpy as np
import pytest
import torch

from tilewright.vgpu import launch
from tilewright.vgpu.errors import UnsupportedInstruction

# kind: C++ element, its storage, numpy or torch storage, bits
KINDS = {
    "f16": ("half", "half", torch.float16), "bf16": ("__nv_bfloat16", "__nv_bfloat16", torch.bfloat16),
    "tf32": ("wmma::precision::tf32", "float", torch.float32), "f64": ("double", "double", torch.float64),
    "s8": ("signed char", "signed char", torch.int8), "u8": ("unsigned char", "unsigned char", torch.uint8),
    "f32": ("float", "float", torch.float32), "s32": ("int", "int", torch.int32),
}  # fmt: skip
WIDE = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
CASES = [
    *((size, "f16", *acc) for size in WIDE for acc in itertools.product(("f16", "f32"), repeat=2)),
    *((size, "bf16", "f32", "f32") for size in WIDE), ((16, 16, 8), "tf32", "f32", "f32"),
    ((8, 8, 4), "f64", "f64", "f64"), *((size, kind, "s32", "s32") for size in WIDE for kind in ("s8", "u8")),
]  # fmt: skip
# Layouts of A, B, C and D; every pair of them occurs.
LAYOUTS = ["rccr", "rrrc", "ccrr", "crcc"]
NAMES = {"r": "row", "c": "col"}
SKEW = 16  # elements between lines beyond the matrix

HEAD = """
#include <mma.h>
using namespace nvcuda;
template <class A, class SA, class C, class D, int M, int N, int K, class LA, class LB>
__device__ void product(const SA* a, const SA* b, const C* c, D* d, int lda, int ldb, int ldc, int ldd,
                        wmma::layout_t lc, wmma::layout_t ld) {
  wmma::fragment<wmma::matrix_a, M, N, K, A, LA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, A, LB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, C> fc;
  wmma::fragment<wmma::accumulator, M, N, K, D> fd;
  wmma::load_matrix_sync(fa, a, lda);
  wmma::load_matrix_sync(fb, b, ldb);
  wmma::load_matrix_sync(fc, c, ldc, lc);
  for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = -fa.x[i];
  wmma::mma_sync(fd, fa, fb, fc);
  wmma::store_matrix_sync(d, fd, ldd, ld);
}
"""
SUB_BYTE = """
#define SUB(name, K, KIND, CALL)                                                                          \\
  extern "C" __global__ void name(const void* a, const void* b, const int* c, int* d, int lda, int ldb) { \\
    wmma::fragment<wmma::matrix_a, 8, 8, K, wmma::experimental::precision::KIND, wmma::row_major> fa;     \\
    wmma::fragment<wmma::matrix_b, 8, 8, K, wmma::experimental::precision::KIND, wmma::col_major> fb;     \\
    wmma::fragment<wmma::accumulator, 8, 8, K, int> fc;                                                   \\
    wmma::load_matrix_sync(fa, a, lda);                                                                   \\
    wmma::load_matrix_sync(fb, b, ldb);                                                                   \\
    wmma::load_matrix_sync(fc, c, 8, wmma::mem_col_major);                                                \\
    CALL;                                                                                                 \\
    wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major);                                               \\
  }
SUB(s4, 32, s4, wmma::mma_sync(fc, fa, fb, fc))
SUB(u4, 32, u4, wmma::mma_sync(fc, fa, fb, fc))
SUB(s4_sat, 32, s4, wmma::mma_sync(fc, fa, fb, fc, true))
SUB(b1_xor, 128, b1, wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpXOR))
SUB(b1_and, 128, b1, wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpAND))

extern "C" __global__ void shared_tiles(const half* a, const half* b, float* d, int n) {
  __shared__ alignas(32) half ta[2][16][24], tb[2][16][24];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.f);
  for (int k = 0; k < n; k += 16) {
    for (int i = lane; i < 256; i += 32) {
      ta[warp][i / 16][i % 16] = a[(16 * warp + i / 16) * n + k + i % 16];
      tb[warp][i / 16][i % 16] = b[(k + i / 16) * 16 + i % 16];
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::load_matrix_sync(fa, &ta[warp][0][0], 24);
    wmma::load_matrix_sync(fb, &tb[warp][0][0], 24);
    wmma::mma_sync(sum, fa, fb, sum);
    __syncwarp();
  }
  wmma::store_matrix_sync(d + 256 * warp, sum, 16, wmma::mem_row_major);
}
"""


def entry(case, layouts):
    size, kind, c, d = case
    return "_".join([kind, *map(str, size), c, d, layouts])


def source():
    out = [HEAD]
    for case in CASES:
        (m, n, k), kind, c, d = case
        for layouts in LAYOUTS:
            a_layout, b_layout, c_layout, d_layout = (f"{NAMES[x]}_major" for x in layouts)
            element, storage, _ = KINDS[kind]
            c_type, d_type = KINDS[c][1], KINDS[d][1]
            out.append(f"""extern "C" __global__ void {entry(case, layouts)}(const {storage}* a, const {storage}* b,
  const {c_type}* c, {d_type}* d, int lda, int ldb, int ldc, int ldd) {{
  product<{element}, {storage}, {c_type}, {d_type}, {m}, {n}, {k}, wmma::{a_layout}, wmma::{b_layout}>(
    a, b, c, d, lda, ldb, ldc, ldd, wmma::mem_{c_layout}, wmma::mem_{d_layout});
}}""")
    return "\n".join([*out, SUB_BYTE])


@pytest.fixture(scope="module")
def ptx(cuda_to_ptx_module):
    return cuda_to_ptx_module(source(), "sm_80")


def stored(matrix, dtype, layout):
    """The matrix in memory, its lines SKEW elements further apart than they are long."""
    lines = matrix if layout == "r" else matrix.T
    out = torch.zeros(lines.shape[0], lines.shape[1] + SKEW, dtype=dtype)
    out[:, : lines.shape[1]] = torch.from_numpy(np.ascontiguousarray(lines)).to(dtype)
    return out


def loaded(tensor, shape, layout):
    lines = tensor[:, : tensor.shape[1] - SKEW].double().numpy()
    assert lines.shape == (shape if layout == "r" else shape[::-1])
    return lines if layout == "r" else lines.T


@pytest.mark.parametrize("case", CASES, ids=lambda case: entry(case, "x"))
def test_products(ptx, case):
    (m, n, k), kind, c_kind, d_kind = case
    rng = np.random.default_rng(m + n)
    for layouts in LAYOUTS:
        if kind in ("s8", "u8"):
            a, b = (rng.integers(0 if kind == "u8" else -128, 128, size=s) for s in ((m, k), (k, n)))
        else:
            a, b = (rng.integers(-8, 9, size=s) / 4 for s in ((m, k), (k, n)))
        c = rng.integers(-9, 10, size=(m, n))
        types = [KINDS[x][2] for x in (kind, kind, c_kind, d_kind)]
        matrices = (a, b, c, np.zeros((m, n)))
        args = [stored(x, t, layout) for x, t, layout in zip(matrices, types, layouts, strict=True)]
        strides = [x.shape[1] for x in args]
        report = launch(ptx, entry(case, layouts), 1, 32, [*args, *strides], target="sm_80", checks=("race",))
        assert report.ok, str(report)
        negated = (-a) % 256 if kind == "u8" else np.where(a == -128, -128, -a) if kind == "s8" else -a
        expected = torch.from_numpy(negated @ b + c).to(types[3]).double().numpy()
        np.testing.assert_array_equal(loaded(args[3], (m, n), layouts[3]), expected)


def packed(values, bits):
    """[lines, k] as bytes, lowest element first."""
    per = 8 // bits
    codes = (values & ((1 << bits) - 1)).reshape(values.shape[0], -1, per)
    return (codes << (bits * np.arange(per))).sum(-1).astype(np.uint8)


@pytest.mark.parametrize("name", ["s4", "u4", "s4_sat", "b1_xor", "b1_and"])
def test_narrow_integers(ptx, name):
    rng = np.random.default_rng(7)
    bits, depth = (4, 32) if "4" in name else (1, 128)
    low, high = {"s": (-8, 8), "u": (0, 16), "b": (0, 2)}[name[0]]
    a, b = rng.integers(low, high, size=(8, depth)), rng.integers(low, high, size=(depth, 8))
    c = rng.integers(-99, 99, size=(8, 8))
    c[0] = 2**31 - 1
    d = torch.zeros(8, 8, dtype=torch.int32)
    rows = np.zeros((8, 2 * depth * bits // 8), np.uint8)  # every other line is not part of the matrix
    rows_a, rows_b = rows.copy(), rows.copy()
    rows_a[:, : depth * bits // 8], rows_b[:, : depth * bits // 8] = packed(a, bits), packed(b.T, bits)
    old = torch.from_numpy(np.ascontiguousarray(c.T.astype(np.int32)))
    args = [torch.from_numpy(rows_a), torch.from_numpy(rows_b), old, d, 2 * depth, 2 * depth]
    report = launch(ptx, name, 1, 32, args, target="sm_80")
    assert report.ok, str(report)
    pairs = {"xor": np.bitwise_xor, "and": np.bitwise_and}.get(name[3:])
    exact = (pairs(a[:, :, None], b[None]).sum(1) if pairs else a @ b) + c
    wrapped = (exact + 2**31) % 2**32 - 2**31
    expected = np.minimum(exact, 2**31 - 1) if name.endswith("sat") else wrapped
    np.testing.assert_array_equal(d.numpy(), expected)


@pytest.mark.parametrize("mode", ["eager", "skew-reverse"])
def test_tiles_in_shared_memory(ptx, mode):
    a, b = torch.randint(-4, 5, (32, 64)).half(), torch.randint(-4, 5, (64, 16)).half()
    d = torch.zeros(32, 16)
    report = launch(ptx, "shared_tiles", 1, 64, [a, b, d, 64], target="sm_80", mode=mode, checks=("race",))
    assert report.ok, str(report)
    assert torch.equal(d, (a.double() @ b.double()).float())


def test_the_compiler_makes_wmma(ptx):
    assert ptx.count("wmma.mma") >= len(CASES) * len(LAYOUTS) + 6


LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%d0]"
STORE = "wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r20], {%r0, %r1, %r2, %r3}"


def findings(launch_body, body, **options):
    report = launch_body(body, [np.zeros(4096, np.uint16)], **options)
    return [(f.kind, f.message) for f in report.findings]


def test_lines_lie_without_gaps_where_no_stride_is_given(launch_body):
    data, out = np.arange(256, dtype=np.uint16), np.zeros(256, np.uint16)
    body = f"mov.u64 %d0, %a0;\n{LOAD};\n" + "\n".join(
        f"mad.wide.u32 %d1, %t, 16, %a1;\nst.global.b32 [%d1+{4 * i}], %r{i};" for i in range(4)
    )
    assert launch_body(body, [data, out]).ok
    assert sorted(out.tolist()) == data.tolist()  # each element once
    assert out[8:10].tolist() == [2, 3]  # lane 1


@pytest.mark.parametrize(
    ("before", "tail", "kind", "why"),
    [
        ("add.s64 %d0, %a0, 8;", ", 16", "misaligned", "both must be multiples of 16 bytes"),
        ("mov.u64 %d0, %a0;", ", 20", "misaligned", "with lines 20 elements apart"),
        ("mad.wide.u32 %d0, %t, 16, %a0;", ", 16", "illegal", "the threads of the warp name different matrices"),
        ("mov.u64 %d0, %a0;", ", %t", "illegal", "the threads of the warp name different matrices"),
        ("mov.u64 %d0, %a0;", ", 512", "out-of-bounds", "read of 4 bytes at global address"),
    ],
)
def test_matrices_that_cannot_be_loaded(launch_body, before, tail, kind, why):
    found = findings(launch_body, f"{before}\n{LOAD}{tail};")
    assert [k for k, _ in found] == [kind]
    assert why in found[0][1]


def test_a_partial_warp(launch_body):
    found = findings(launch_body, f"mov.u64 %d0, %a0;\n{LOAD};", block=16)
    assert "all 32 threads" in found[0][1]


def test_warps_that_store_to_one_place_race(launch_body):
    values = "".join(f"mov.b32 %r{i}, %t;" for i in range(4))
    body = f".shared .align 32 .b8 tile[512];\nmov.u32 %r20, tile;\n{values}\n{STORE};"
    assert findings(launch_body, body, checks=("race",)) == []
    assert {k for k, _ in findings(launch_body, body, block=64, checks=("race",))} == {"race"}


@pytest.mark.parametrize(
    ("spelling", "why"),
    [
        ("wmma.load.a.sync.aligned.row.m16n16k8.global.f16", "no wmma.load.a takes together"),
        ("wmma.load.b.sync.aligned.row.m8n8k32.global.s4", "s4 elements lie by columns"),
        ("wmma.store.d.sync.aligned.row.m16n16k16.global.f64", "no wmma.store.d takes together"),
        ("wmma.load.d.sync.aligned.row.m16n16k16.global.f32", "takes .a, .b, .c"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.bf16.bf16.f16", "no wmma.mma takes together"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32", "no wmma.mma takes together"),
        ("wmma.mma.sync.aligned.row.row.m8n8k32.s32.s4.s4.s32", "takes .row.col for s4"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.satfinite", "needs integer operands"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.rn.f32.f32", "has .rn, which needs f64"),
        ("wmma.mma.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32", "takes .and.popc or .xor.popc"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16.f16.f32", "names the types of f16 operands"),
    ],
)
def test_refused_spellings(launch_body, spelling, why):
    with pytest.raises(UnsupportedInstruction, match=why):
        launch_body(f"{spelling} {{%r0}}, [%d0];", [np.zeros(1, np.uint16)])
