"""CUDA C on the libraries that real kernels use (CUB, libcu++, cooperative groups, half types), against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilewright import vgpu

ARCHS = ("sm_80", "sm_90a")
MODES = ("eager", "lazy", "skew-reverse", "random")
SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
namespace cg = cooperative_groups;
#define K extern "C" __global__ void

K block_sums(const int* x, int* out) {
  using Reduce = cub::BlockReduce<int, 128>;
  using Scan = cub::BlockScan<int, 128>;
  __shared__ union { Reduce::TempStorage reduce; Scan::TempStorage scan; } memory;
  int v = x[blockIdx.x * 128 + threadIdx.x];
  int sum = Reduce(memory.reduce).Sum(v);
  __syncthreads();
  int before, total;
  Scan(memory.scan).ExclusiveSum(v, before, total);
  out[blockIdx.x * 128 + threadIdx.x] = before;
  if (threadIdx.x) return;
  out[gridDim.x * 128 + 2 * blockIdx.x] = sum;
  out[gridDim.x * 128 + 2 * blockIdx.x + 1] = total;
}
K sort(const unsigned* keys, const int* values, unsigned* sorted, int* moved) {
  using Sort = cub::BlockRadixSort<unsigned, 64, 4, int>;
  __shared__ Sort::TempStorage memory;
  unsigned k[4]; int v[4];
  for (int i = 0; i < 4; ++i) { k[i] = keys[threadIdx.x * 4 + i]; v[i] = values[threadIdx.x * 4 + i]; }
  Sort(memory).Sort(k, v);
  for (int i = 0; i < 4; ++i) { sorted[threadIdx.x * 4 + i] = k[i]; moved[threadIdx.x * 4 + i] = v[i]; }
}
K group_sums(const int* x, int* out) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  int v = x[block.thread_rank()];
  out[block.thread_rank()] = cg::reduce(tile, v, cg::plus<int>());
  out[64 + block.thread_rank()] = cg::inclusive_scan(tile, v);
  out[128 + block.thread_rank()] = cg::reduce(cg::tiled_partition<8>(block), v, cg::greater<int>());
  auto parts = cg::labeled_partition(tile, v % 3);
  out[192 + block.thread_rank()] = cg::reduce(parts, v, cg::plus<int>());
}
K staged(const int* x, int* out, int batches) {
  __shared__ int tile[2][128];
  auto block = cg::this_thread_block();
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0;
  for (int b = 0, fetch = 0; b < batches; ++b) {
    for (; fetch < batches && fetch < b + 2; ++fetch) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, tile[fetch % 2], x + fetch * 128, cuda::aligned_size_t<16>(sizeof(int) * 128), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += tile[b % 2][127 - threadIdx.x] * (b + 1);
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}
K ring(const int* x, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int cells[64];
  if (threadIdx.x == 0) init(&bar, 64);
  __syncthreads();
  int v = x[threadIdx.x];
  for (int i = 0; i < 5; ++i) {
    cells[threadIdx.x] = v;
    bar.arrive_and_wait();
    v += cells[(threadIdx.x + 1) % 64];
    auto token = bar.arrive();
    bar.wait(std::move(token));
  }
  out[threadIdx.x] = v;
}
K ticket(int* counter, int* order, unsigned long long* best, float* sum) {
  cuda::atomic_ref<int, cuda::thread_scope_device> count(*counter);
  int mine = count.fetch_add(1, cuda::std::memory_order_relaxed);
  order[mine] = blockIdx.x * blockDim.x + threadIdx.x;
  cuda::atomic_ref<unsigned long long> top(*best);
  top.fetch_max((unsigned long long)(mine * 7919 % 257));
  cuda::atomic_ref<float, cuda::thread_scope_device> total(*sum);
  float seen = total.load(cuda::std::memory_order_relaxed);
  while (!total.compare_exchange_weak(seen, seen + 0.5f, cuda::std::memory_order_acq_rel)) {}
}
K halves(const __half2* x, const __half2* y, __half2* out) {
  int i = threadIdx.x;
  out[8 * i] = __hmul2(x[i], y[i]);
  out[8 * i + 1] = h2exp2(__hmin2(x[i], y[i]));
  out[8 * i + 2] = __h2div(x[i], y[i]);
  out[8 * i + 3] = h2sqrt(__habs2(x[i]));
  out[8 * i + 4] = __hfma2_relu(x[i], y[i], x[i]);
  out[8 * i + 5] = __hgt2(x[i], y[i]);
  out[8 * i + 6] = __halves2half2(__hadd(__low2half(x[i]), __high2half(y[i])), hrint(__low2half(y[i])));
  out[8 * i + 7] = __lowhigh2highlow(x[i]);
}
K brains(const __nv_bfloat162* x, const __nv_bfloat162* y, __nv_bfloat162* out, float* single) {
  int i = threadIdx.x;
  out[6 * i] = __hadd2(x[i], y[i]);
  out[6 * i + 1] = __hfma2(x[i], y[i], x[i]);
  out[6 * i + 2] = __hmax2(x[i], __hneg2(y[i]));
  out[6 * i + 3] = __floats2bfloat162_rn(__low2float(x[i]) * 3.0f, __high2float(y[i]) - 0.1f);
  out[6 * i + 4] = h2rcp(y[i]);
  out[6 * i + 5] = __hsub2(x[i], y[i]);
  single[i] = __bfloat162float(__low2bfloat16(x[i])) + (float)__high2bfloat16(y[i]);
}
K eighths(const float* x, __nv_fp8_e4m3* a, __nv_fp8_e5m2* b, float* back) {
  int i = threadIdx.x;
  a[i] = __nv_fp8_e4m3(x[i]);
  b[i] = __nv_fp8_e5m2(x[i]);
  back[2 * i] = float(a[i]);
  back[2 * i + 1] = __half2float(__half(b[i]));
}
K bits(const unsigned* x, const unsigned* y, unsigned* out) {
  int i = threadIdx.x, n = blockDim.x;
  unsigned a = x[i], b = y[i];
  out[i] = __brev(a) ^ __popc(b);
  out[n + i] = __clz(a) * 64 + __ffs(b);
  out[2 * n + i] = __funnelshift_l(a, b, a & 31) + __funnelshift_rc(a, b, b & 63);
  out[3 * n + i] = __byte_perm(a, b, 0x3715);
  out[4 * n + i] = __vadd4(a, b) ^ __vmaxu2(a, b);
  out[5 * n + i] = __sad((int)a, (int)b, 9u) + __usad(a, b, 1u);
  out[6 * n + i] = __umulhi(a, b) ^ __mulhi((int)a, (int)b);
  out[7 * n + i] = __dp4a((int)a, (int)b, 5) + __hadd((int)a, (int)b);
  out[8 * n + i] = __match_any_sync(~0u, a & 3) ^ __reduce_max_sync(~0u, b & 1023);
  out[9 * n + i] = __vcmpgts2(a, b) + __vabsdiffu4(a, b);
}
__constant__ float weights[5] = {1, -2, 0.5f, 4, 8};
K convolve(const float* x, float* out, int n) {
  extern __shared__ float line[];
  int i = threadIdx.x;
  for (int k = i; k < n + 4; k += blockDim.x) line[k] = k < 2 || k >= n + 2 ? 0 : x[k - 2];
  __syncthreads();
  if (i < n) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 5; ++k) sum += weights[k] * line[i + k];
    out[i] = sum;
  }
}
"""


@pytest.fixture(name="run", params=ARCHS)
def run_fixture(request, cuda_to_ptx):
    """Launches a kernel of SOURCE; whatever the mode, nothing is found."""
    ptx = cuda_to_ptx(SOURCE, request.param, "-default-device")

    def run(entry, grid, block, args, mode="eager", **options):
        checks = () if mode == "eager" else ("race",)
        options = {"target": request.param, "threads": 1, "mode": mode, "checks": checks, **options}
        report = vgpu.launch(ptx, entry, grid, block, args, **options)
        assert report.ok, str(report)

    return run


@pytest.fixture(name="rng")
def rng_fixture():
    return np.random.default_rng(11)


@pytest.mark.parametrize("mode", MODES)
def test_block_reduction_and_scan(run, rng, mode):
    x = rng.integers(-1000, 1000, 3 * 128).astype(np.int32)
    out = np.zeros(3 * 128 + 6, np.int32)
    run("block_sums", 3, 128, [x, out], mode)
    rows = x.reshape(3, 128)
    np.testing.assert_array_equal(out[:-6].reshape(3, 128), rows.cumsum(1) - rows)
    np.testing.assert_array_equal(out[-6:], np.repeat(rows.sum(1), 2))


@pytest.mark.parametrize("mode", MODES)
def test_radix_sort(run, rng, mode):
    keys = rng.integers(0, 2**32, 256, dtype=np.uint32)
    keys[::5] = keys[0]  # the sort is stable
    values = np.arange(256, dtype=np.int32)
    ordered, moved = np.zeros_like(keys), np.zeros_like(values)
    run("sort", 1, 64, [keys, values, ordered, moved], mode)
    np.testing.assert_array_equal(ordered, np.sort(keys))
    np.testing.assert_array_equal(moved, np.argsort(keys, kind="stable"))


def test_group_collectives(run, rng):
    x = rng.integers(0, 1000, 64).astype(np.int32)
    out = np.zeros((4, 64), np.int32)
    run("group_sums", 1, 64, [x, out])
    warps = x.reshape(2, 32)
    np.testing.assert_array_equal(out[0], warps.sum(1).repeat(32))
    np.testing.assert_array_equal(out[1], warps.cumsum(1).ravel())
    np.testing.assert_array_equal(out[2], x.reshape(8, 8).max(1).repeat(8))
    labels = warps % 3
    want = [[row[marks == mark].sum() for mark in marks] for row, marks in zip(warps, labels, strict=True)]
    np.testing.assert_array_equal(out[3], np.ravel(want))


@pytest.mark.parametrize("mode", MODES)
def test_pipeline(run, rng, mode):
    x = rng.integers(-1000, 1000, (5, 128)).astype(np.int32)
    out = np.zeros(128, np.int32)
    run("staged", 1, 128, [x, out, 5], mode)
    np.testing.assert_array_equal(out, (x[:, ::-1] * np.arange(1, 6)[:, None]).sum(0))


@pytest.mark.parametrize("mode", MODES)
def test_barrier(run, rng, mode):
    x = rng.integers(-100, 100, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    run("ring", 1, 64, [x, out], mode)
    want = x
    for _ in range(5):
        want = want + np.roll(want, -1)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("mode", MODES)
def test_atomic_references(run, mode):
    counter, order = np.zeros(1, np.int32), np.full(128, -1, np.int32)
    best, total = np.zeros(1, np.uint64), np.zeros(1, np.float32)
    run("ticket", 4, 32, [counter, order, best, total], mode, threads=2)
    assert counter[0] == 128
    assert sorted(order) == list(range(128))
    assert best[0] == max(k * 7919 % 257 for k in range(128))
    assert total[0] == 64


def test_halves(run, rng):
    x, y = (rng.uniform(-3, 3, 64).astype(np.float16) for _ in range(2))
    out = np.zeros((32, 8, 2), np.float16)
    run("halves", 1, 32, [x, y, out])
    a, b = x.astype(np.float64).reshape(32, 2), y.astype(np.float64).reshape(32, 2)
    exact = {0: a * b, 3: np.sqrt(abs(a)), 4: np.maximum(a * b + a, 0), 5: a > b, 7: a[:, ::-1]}
    exact[6] = np.stack([a[:, 0] + b[:, 1], np.rint(b[:, 0])], 1)
    for k, want in exact.items():
        np.testing.assert_array_equal(out[:, k], want.astype(np.float16), err_msg=str(k))
    for k, want in {1: np.exp2(np.minimum(a, b)), 2: a / b}.items():
        np.testing.assert_allclose(out[:, k], want, rtol=2e-3)


def test_bfloat16(run, rng):
    x, y = (torch.from_numpy(rng.uniform(0.5, 3, 64)).bfloat16() for _ in range(2))
    out, single = torch.zeros(32, 6, 2, dtype=torch.bfloat16), torch.zeros(32)
    run("brains", 1, 32, [x, y, out, single])
    a, b = x.double().view(32, 2), y.double().view(32, 2)
    low = (a[:, 0].float() * 3).double()
    high = (b[:, 1].float() - torch.tensor(0.1, dtype=torch.float32)).double()
    exact = [a + b, a * b + a, torch.maximum(a, -b), torch.stack([low, high], 1), None, a - b]
    for k, want in enumerate(exact):
        if want is not None:
            assert torch.equal(out[:, k], want.bfloat16()), k
    assert torch.allclose(out[:, 4].double(), 1 / b, rtol=4e-3)
    assert torch.equal(single, (a[:, 0] + b[:, 1]).float())


def test_eight_bit_floats(run, rng):
    x = (rng.standard_normal(32) * np.exp2(rng.integers(-12, 12, 32))).astype(np.float32)
    a, b = torch.zeros(32, dtype=torch.float8_e4m3fn), torch.zeros(32, dtype=torch.float8_e5m2)
    back = torch.zeros(32, 2)
    run("eighths", 1, 32, [x, a, b, back])
    want_a = torch.from_numpy(x).clamp(-448, 448).to(torch.float8_e4m3fn)
    want_b = torch.from_numpy(x).clamp(-57344, 57344).to(torch.float8_e5m2)
    assert torch.equal(a.float(), want_a.float())
    assert torch.equal(b.float(), want_b.float())
    assert torch.equal(back, torch.stack([want_a.float(), want_b.float()], 1))


def signed(value, width=32):
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def parts(value, width):
    return [value >> k & (1 << width) - 1 for k in range(0, 32, width)]


def joined(values, width):
    return sum((v & (1 << width) - 1) << width * k for k, v in enumerate(values))


def bit_rows(a, b):
    """What each row of the kernel ``bits`` is for one lane, in Python integers; row 8 needs the warp."""
    source = [*parts(a, 8), *parts(b, 8)]
    four = list(zip(parts(a, 8), parts(b, 8), strict=True))
    two = list(zip(parts(a, 16), parts(b, 16), strict=True))
    left = (b << 32 | a) << (a & 31) >> 32
    right = (b << 32 | a) >> min(b & 63, 32)
    return [
        int(f"{a:032b}"[::-1], 2) ^ b.bit_count(),
        (32 - a.bit_length()) * 64 + (b & -b).bit_length(),
        left + right,
        joined([source[k] for k in (5, 1, 7, 3)], 8),
        joined([x + y for x, y in four], 8) ^ joined([max(x, y) for x, y in two], 16),
        abs(signed(a) - signed(b)) + 9 + abs(a - b) + 1,
        (a * b >> 32) ^ (signed(a) * signed(b) >> 32),
        sum(signed(x, 8) * signed(y, 8) for x, y in four) + 5 + (signed(a) + signed(b) >> 1),
        None,
        joined([-(signed(x, 16) > signed(y, 16)) for x, y in two], 16) + joined([abs(x - y) for x, y in four], 8),
    ]


def test_bit_intrinsics(run, rng):
    x, y = (rng.integers(0, 2**32, 32, dtype=np.uint32) for _ in range(2))
    out = np.zeros((10, 32), np.uint32)
    run("bits", 1, 32, [x, y, out])
    for lane in range(32):
        want = bit_rows(int(x[lane]), int(y[lane]))
        matching = sum(1 << k for k in range(32) if x[k] & 3 == x[lane] & 3)
        want[8] = matching ^ int((y & 1023).max())
        assert out[:, lane].tolist() == [w % 2**32 for w in want], lane


def test_constants_and_dynamic_shared_memory(run, rng):
    x = rng.integers(-8, 8, 50).astype(np.float32)
    out = np.zeros(50, np.float32)
    run("convolve", 1, 64, [x, out, 50], "lazy", dynamic_smem=4 * 54)
    np.testing.assert_array_equal(out, np.correlate(np.pad(x, 2), [1, -2, 0.5, 4, 8], "valid"))
