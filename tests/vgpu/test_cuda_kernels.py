"""Plain CUDA C, compiled by NVRTC with and without optimisation, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

FLAGS = {"optimised": (), "debug": ("--device-debug",)}
ARCHS = ("sm_80", "sm_90a")

SOURCE = r"""
#include <cooperative_groups.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;
#define K extern "C" __global__ void
__device__ int total_calls = 0;
__constant__ int powers[4] = {1, 10, 100, 1000};

K reduce(const float* x, float* out, int n) {
  __shared__ float part[128];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
K transpose(const int* x, int* out, int rows, int columns) {
  __shared__ int tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r0 = blockIdx.y * 32;
  for (int r = threadIdx.y; r < 32; r += 8)
    if (r0 + r < rows && c < columns) tile[r][threadIdx.x] = x[(r0 + r) * columns + c];
  __syncthreads();
  int tr = r0 + threadIdx.x;
  for (int r = threadIdx.y; r < 32; r += 8) {
    int tc = blockIdx.x * 32 + r;
    if (tr < rows && tc < columns) out[tc * rows + tr] = tile[threadIdx.x][r];
  }
}
K histogram(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1u);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
K scan(const int* x, int* out) {
  __shared__ int warp_sums[8];
  int value = x[threadIdx.x], lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int d = 1; d < 32; d *= 2) {
    int other = __shfl_up_sync(~0u, value, d);
    if (lane >= d) value += other;
  }
  if (lane == 31) warp_sums[warp] = value;
  __syncthreads();
  if (warp == 0 && lane < 8) {
    int s = warp_sums[lane];
    for (int d = 1; d < 8; d *= 2) {
      int other = __shfl_up_sync(0xff, s, d, 8);
      if (lane >= d) s += other;
    }
    warp_sums[lane] = s;
  }
  __syncthreads();
  out[threadIdx.x] = value + (warp ? warp_sums[warp - 1] : 0);
}
K groups(const int* x, int* out) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  int value = x[block.thread_rank()], sum = value;
  for (int d = 8; d; d /= 2) sum += tile.shfl_xor(sum, d);
  unsigned odd = tile.ballot(value & 1);
  int* mine = out + 4 * block.thread_rank();
  mine[0] = sum;
  mine[1] = __popc(odd);
  mine[2] = tile.any(value > 900) + 2 * tile.all(value >= 0);
  if (value & 1) {
    cg::coalesced_group active = cg::coalesced_threads();
    mine[3] = active.size() * 100 + active.thread_rank();
  } else {
    mine[3] = -1;
  }
  block.sync();
}
K speak(const float* x, int limit) {
  if (threadIdx.x < 2)
    printf("thread %d has %.2f and %s, %llx%%\n", threadIdx.x, x[threadIdx.x], "text", 0xabcdef012345ull);
  assert((int)threadIdx.x < limit && "small enough");
}
struct Point { double x; int tag; float weights[3]; };
K structures(Point p, Point* out) {
  Point q = p;
  q.x += threadIdx.x;
  q.tag = -p.tag;
  q.weights[threadIdx.x % 3] *= 2;
  out[threadIdx.x] = q;
}
K local_arrays(const int* x, int* out) {
  int stack[32], n = 0;
  for (int i = 0; i < 32; ++i) stack[i] = x[(threadIdx.x + i) & 31] ^ i;
  for (int i = 0; i < 32; ++i) n = n * 3 + stack[(stack[i] ^ threadIdx.x) & 31];
  out[threadIdx.x] = n + powers[n & 3];
}
__device__ __noinline__ long long triangle(int n, const int* limit) {
  atomicAdd(&total_calls, 1);
  long long sum = 0;
  for (int i = 0; i <= n && i < *limit; ++i) sum += i;
  return sum;
}
__device__ __noinline__ double half_of(double x, int n) { return n & 1 ? x / 2 : x + triangle(n, &n); }
K calls(double* out, int* count) {
  int limit = 20;
  double value = 1;
  if (threadIdx.x % 3) value = half_of(threadIdx.x, threadIdx.x);
  out[threadIdx.x] = value + triangle(threadIdx.x, &limit);
  __syncthreads();
  if (threadIdx.x == 0) *count = total_calls;
}
K switches(const int* x, int* out) {
  int v = x[threadIdx.x], r;
  switch (v) {
    case 0: r = v + 11; break;
    case 1: r = v * 7; break;
    case 2: r = 5 - v; break;
    case 3: r = v << 9; break;
    case 4: r = -v; break;
    case 5: r = v * v * v; break;
    case 6: case 7: r = 1000 / v; break;
    case 8: r = ~v;
    case 9: r = v ^ 0x55; break;
    default: r = 1;
  }
  out[threadIdx.x] = r;
}
K halves(const __half2* x, const __half2* y, __half2* out) {
  int i = threadIdx.x;
  out[4 * i] = __hfma2(x[i], y[i], x[i]);
  out[4 * i + 1] = __hadd2_sat(x[i], y[i]);
  out[4 * i + 2] = __hmax2(__hneg2(x[i]), __habs2(y[i]));
  out[4 * i + 3] = __floats2half2_rn(__low2float(x[i]) * 3.0f, __high2float(y[i]) - 0.1f);
}
typedef int (*Operation)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b; }
K pointers(const int* x, int* out) {
  Operation operation = x[threadIdx.x] & 1 ? add : multiply;
  out[threadIdx.x] = operation(x[threadIdx.x], 7) + 1;
}
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
K recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x); }
K whole_grid(int* cells, int* out) {
  cg::grid_group grid = cg::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  cells[i] = i * i;
  grid.sync();
  out[i] = cells[gridDim.x * blockDim.x - 1 - i];
}
"""


@pytest.fixture(name="run", params=[(f, a) for f in FLAGS for a in ARCHS], ids="-".join)
def run_fixture(request, cuda_to_ptx):
    """Launches a kernel of SOURCE."""
    flags, arch = request.param
    ptx = cuda_to_ptx(SOURCE, arch, "-default-device", *FLAGS[flags])

    def run(entry, grid, block, args, **options):
        return vgpu.launch(ptx, entry, grid, block, args, target=arch, threads=1, **options)

    return run


def clean(report):
    assert report.ok, str(report)
    return report


def test_reduction(run):
    x = np.random.default_rng(0).integers(-50, 50, 5000).astype(np.float32)
    out = np.zeros(1, np.float32)
    clean(run("reduce", 5, 128, [x, out, len(x)]))
    assert out[0] == x.sum()


def test_transposition(run):
    x = np.arange(70 * 45, dtype=np.int32).reshape(70, 45)
    out = np.zeros((45, 70), np.int32)
    clean(run("transpose", (2, 3), (32, 8), [x, out, 70, 45]))
    np.testing.assert_array_equal(out, x.T)


def test_histogram(run):
    x = np.random.default_rng(1).integers(0, 256, 10_000).astype(np.uint8)
    out = np.zeros(256, np.uint32)
    clean(run("histogram", 4, 256, [x, out, len(x)]))
    np.testing.assert_array_equal(out, np.bincount(x, minlength=256))


def test_scan(run):
    x = np.random.default_rng(2).integers(-1000, 1000, 256).astype(np.int32)
    out = np.zeros_like(x)
    for mode in ("eager", "skew", "skew-reverse", "random"):
        clean(run("scan", 1, 256, [x, out], mode=mode))
        np.testing.assert_array_equal(out, np.cumsum(x))


def test_cooperative_groups(run):
    x = np.random.default_rng(3).integers(0, 1000, 64).astype(np.int32)
    out = np.zeros((64, 4), np.int32)
    clean(run("groups", 1, 64, [x, out]))
    tiles = x.reshape(4, 16)
    np.testing.assert_array_equal(out[:, 0].reshape(4, 16), np.repeat(tiles.sum(1)[:, None], 16, 1))
    np.testing.assert_array_equal(out[:, 1].reshape(4, 16)[:, 0], (tiles & 1).sum(1))
    np.testing.assert_array_equal(out[:, 2].reshape(4, 16)[:, 3], (tiles > 900).any(1) + 2)
    for warp in range(2):
        odd = np.flatnonzero(x[32 * warp : 32 * warp + 32] & 1)
        want = np.full(32, -1)
        want[odd] = 100 * len(odd) + np.arange(len(odd))
        np.testing.assert_array_equal(out[32 * warp : 32 * warp + 32, 3], want)


def test_printed_text_and_assertions(run):
    x = np.array([1.25, -3.5], np.float32)
    report = clean(run("speak", 1, 2, [x, 5]))
    assert report.output == "thread 0 has 1.25 and text, abcdef012345%\nthread 1 has -3.50 and text, abcdef012345%\n"
    report = run("speak", 1, 8, [x, 5])
    assert [(f.kind, f.lane) for f in report.findings] == [("assertion", 5)]
    assert "small enough" in report.findings[0].message


def test_structures_by_value(run):
    kind = np.dtype([("x", "<f8"), ("tag", "<i4"), ("weights", "<f4", 3)])
    point = np.zeros(1, kind)
    point["x"], point["tag"], point["weights"] = 2.5, 9, [1, 2, 3]
    out = np.zeros(6, kind)
    clean(run("structures", 1, 6, [point.tobytes(), out.view(np.uint8)]))
    np.testing.assert_array_equal(out["x"], 2.5 + np.arange(6))
    assert (out["tag"] == -9).all()
    np.testing.assert_array_equal(
        out["weights"], np.array([1, 2, 3]) * (1 + (np.arange(6)[:, None] % 3 == np.arange(3)))
    )


def test_local_arrays_with_dynamic_indices(run):
    x = np.random.default_rng(4).integers(0, 32, 32).astype(np.int32)
    out = np.zeros(32, np.int32)
    clean(run("local_arrays", 1, 32, [x, out]))
    for t in range(32):
        stack = [int(x[(t + i) & 31]) ^ i for i in range(32)]
        n = 0
        for i in range(32):
            n = n * 3 + stack[(stack[i] ^ t) & 31]
        n = (n + 2**31) % 2**32 - 2**31
        assert out[t] == n + [1, 10, 100, 1000][n & 3]


def test_calls_that_are_not_inlined(run):
    out, count = np.zeros(40), np.zeros(1, np.int32)
    clean(run("calls", 1, 40, [out, count]))

    def triangle(n, limit):
        return sum(i for i in range(n + 1) if i < limit)

    want = [(1 if t % 3 == 0 else t / 2 if t & 1 else t + triangle(t, t)) + triangle(t, 20) for t in range(40)]
    np.testing.assert_array_equal(out, want)
    assert count[0] == 40 + sum(1 for t in range(40) if t % 3 and not t & 1)


def test_switches(run):
    x = np.arange(-3, 29, dtype=np.int32)
    out = np.zeros(32, np.int32)
    clean(run("switches", 1, 32, [x, out]))
    cases = {0: 11, 1: 7, 2: 3, 3: 3 << 9, 4: -4, 5: 125, 6: 166, 7: 142, 8: 8 ^ 0x55, 9: 9 ^ 0x55}
    assert out.tolist() == [cases.get(int(v), 1) for v in x]


def test_packed_halves(run):
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(64).astype(np.float16) for _ in range(2))
    out = np.zeros((32, 4, 2), np.float16)
    clean(run("halves", 1, 32, [x, y, out]))
    a, b = x.astype(np.float64).reshape(32, 2), y.astype(np.float64).reshape(32, 2)
    np.testing.assert_array_equal(out[:, 0], (a * b + a).astype(np.float16))
    np.testing.assert_array_equal(out[:, 1], np.clip((a + b).astype(np.float16), 0, 1))
    np.testing.assert_array_equal(out[:, 2], np.maximum(-a, abs(b)).astype(np.float16))
    low = (a[:, 0].astype(np.float32) * np.float32(3)).astype(np.float16)
    high = (b[:, 1].astype(np.float32) - np.float32(0.1)).astype(np.float16)
    np.testing.assert_array_equal(out[:, 3], np.stack([low, high], 1))


def test_recursion(run):
    out = np.zeros(8, np.int32)
    clean(run("recursion", 1, 8, [out]))
    assert out.tolist() == [0, 1, 1, 2, 3, 5, 8, 13]


def test_grid_wide_synchronisation(run):
    cells, out = np.zeros(96, np.int32), np.zeros(96, np.int32)
    clean(run("whole_grid", 3, 32, [cells, out]))
    np.testing.assert_array_equal(out, np.arange(96)[::-1] ** 2)
