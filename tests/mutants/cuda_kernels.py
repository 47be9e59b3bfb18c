"""Kernels in CUDA C, for what TileLang does not emit: named barriers, clusters, flags between blocks, bulk stores."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dsl import Target
from tilewright.lowering import Artifact, Expression, KernelLaunch, LaunchPlan, PointerParameter, TensorArgument
from tilewright.lowering.nvrtc import compile_cuda
from tilewright.runtime import Kernel
from tilewright.schedules import Schedule

ASM = r"""
#define K extern "C" __global__ void
typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(u64* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}
__device__ void init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void arrive(u64* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}
__device__ void expect(u64* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
template <int kId> __device__ void sync(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(kId), "r"(threads) : "memory");
}
"""
TRY_WAIT = r"""
__device__ void wait(u64* bar, int parity) {
  asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(at(bar)), "r"(parity) : "memory");
}
"""
TEST_WAIT = TRY_WAIT.replace("try_wait", "test_wait")

# The fifth warp fills three slots by bulk copies; four warps reverse each and store it by bulk copies from two slots.
RING = (
    ASM
    + TRY_WAIT
    + r"""
K __launch_bounds__(160) ring(const float* x, float* y) {
  __shared__ __align__(128) float in[3][512], out[2][512];
  __shared__ u64 full[3], empty[3];
  const int t = threadIdx.x, rounds = 8;
  if (t == 0) {
    for (int s = 0; s < 3; ++s) { init(&full[s], 1); init(&empty[s], 128); }
    init_fence();
  }
  __syncthreads();
  x += blockIdx.x * rounds * 512;
  y += blockIdx.x * rounds * 512;
  if (t >= 128) {
    if (t > 128) return;
    #pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
      const int s = r % 3;
      wait(&empty[s], (r / 3 & 1) ^ 1);
      expect(&full[s], 2048);
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 2048, [%2];" ::"r"(
                       at(in[s])), "l"(x + r * 512), "r"(at(&full[s])) : "memory");
    }
    return;
  }
  #pragma unroll 1
  for (int r = 0; r < rounds; ++r) {
    const int s = r % 3, o = r & 1;
    if (t == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    sync<1>(128);
    wait(&full[s], r / 3 & 1);
    const float4 v = reinterpret_cast<float4*>(in[s])[127 - t];
    reinterpret_cast<float4*>(out[o])[t] = make_float4(v.w, v.z, v.y, v.x);
    arrive(&empty[s]);
    proxy_fence();
    sync<2>(128);
    if (t == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 2048;" ::"l"(y + r * 512), "r"(at(out[o]))
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
  if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
"""
)

# Copies of single threads that arrive on mbarriers; what one thread copied another one reads.
COPIES = (
    ASM
    + TEST_WAIT
    + r"""
K __launch_bounds__(128) copies(const int* x, int* y) {
  __shared__ __align__(128) int in[2][512];
  __shared__ u64 full[2], empty[2];
  const int t = threadIdx.x, rounds = 6;
  if (t == 0)
    for (int s = 0; s < 2; ++s) { init(&full[s], 128); init(&empty[s], 128); }
  __syncthreads();
  x += blockIdx.x * rounds * 512;
  int sum = 0;
  #pragma unroll 1
  for (int r = 0; r <= rounds; ++r) {
    if (r < rounds) {
      const int s = r & 1;
      wait(&empty[s], (r >> 1 & 1) ^ 1);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(&in[s][4 * t])), "l"(x + r * 512 + 4 * t)
                   : "memory");
      asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at(&full[s])) : "memory");
    }
    if (r > 0) {
      const int s = r - 1 & 1;
      wait(&full[s], r - 1 >> 1 & 1);
      for (int k = 0; k < 4; ++k) sum = sum * 3 + in[s][128 * k + 127 - t];
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(&empty[s])) : "memory");
    }
  }
  y[blockIdx.x * 128 + t] = sum;
}
"""
)

# Two blocks of a cluster send each other what they computed, by copies between their shared memories.
PAIR = (
    ASM
    + TRY_WAIT
    + r"""
K __cluster_dims__(2, 1, 1) __launch_bounds__(128) pair(const int* x, int* y) {
  __shared__ __align__(128) int mine[512], theirs[512];
  __shared__ u64 full, empty;
  unsigned rank, peer_data, peer_full, peer_empty;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_data) : "r"(at(theirs)), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_full) : "r"(at(&full)), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_empty) : "r"(at(&empty)), "r"(rank ^ 1));
  const int t = threadIdx.x;
  if (t == 0) { init(&full, 1); init(&empty, 128); init_fence(); }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  int sum = 0;
  #pragma unroll 1
  for (int r = 0; r < 4; ++r) {
    if (r) wait(&empty, r - 1 & 1);
    for (int k = 0; k < 4; ++k) mine[4 * t + k] = x[(blockIdx.x * 4 + r) * 512 + 4 * t + k] + sum;
    proxy_fence();
    __syncthreads();
    if (t == 0) {
      expect(&full, 2048);
      asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 2048, [%2];"
                   ::"r"(peer_data), "r"(at(mine)), "r"(peer_full) : "memory");
    }
    wait(&full, r & 1);
    for (int k = 0; k < 4; ++k) sum = sum * 3 + theirs[128 * k + 127 - t];
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer_empty) : "memory");
  }
  y[blockIdx.x * 128 + t] = sum;
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
"""
)

# Sums over all blocks: each adds to what its predecessor left; the block that counts last adds up the shares.
FLAGS = (
    ASM
    + r"""
K __launch_bounds__(128) flags(const int* x, int* running, int* shares, int* total, unsigned* flag, unsigned* count) {
  __shared__ int part[128];
  __shared__ bool last;
  const int t = threadIdx.x, b = blockIdx.x, n = gridDim.x;
  part[t] = x[b * 128 + t];
  __syncthreads();
  #pragma unroll 1
  for (int s = 64; s; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  if (t == 0) {
    unsigned seen = b == 0;
    while (!seen) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag + b - 1) : "memory");
    running[b] = part[0] + (b ? running[b - 1] : 0);
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag + b), "r"(1) : "memory");
  }
  shares[b * 128 + t] = part[0] + t;
  __syncthreads();
  if (t == 0) {
    __threadfence();
    last = atomicAdd(count, 1) == n - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  int sum = 0;
  for (int k = 0; k < n; ++k) sum += __ldcg(&shares[k * 128 + t]);
  total[t] = sum;
}
"""
)


@dataclass(frozen=True)
class Cuda:
    """A kernel in CUDA C: ``arguments`` are (name, dtype, shape) in the order of its parameters."""

    name: str
    source: str
    arguments: tuple[tuple[str, str, tuple[int, ...]], ...]
    grid: int
    block: int
    cluster: int = 1

    def kernel(self, target: str) -> Kernel:
        """The kernel, compiled for a target."""
        machine = Target(target)
        compiled = compile_cuda(self.source, machine)
        key = hashlib.sha256(f"{target}:{compiled.ptx}".encode()).hexdigest()
        artifact = Artifact(
            key,
            machine,
            self._plan(),
            self.source,
            compiled.ptx,
            compiled.cubin,
            (),
            Schedule(),
            "",
            compiled.log,
            "nvrtc",
        )
        return Kernel(artifact)

    def _plan(self) -> LaunchPlan:
        launch = KernelLaunch(
            self.name,
            _extents(self.grid, 1, 1),
            _extents(self.block, 1, 1),
            (self.cluster, 1, 1) if self.cluster > 1 else None,
            Expression.parse(0),
            tuple(PointerParameter(name) for name, _, _ in self.arguments),
        )
        arguments = tuple(TensorArgument(name, dtype, _extents(*shape)) for name, dtype, shape in self.arguments)
        return LaunchPlan(self.name, arguments, (), (launch,))


def _extents(*values: int) -> tuple[Expression, ...]:
    return tuple(Expression.parse(value) for value in values)


def _arguments(dtype: str, *shapes: tuple[str, Sequence[int]]) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    return tuple((name, dtype, tuple(shape)) for name, shape in shapes)


ring = Cuda("ring", RING, _arguments("float32", ("x", (2, 8, 512)), ("y", (2, 8, 512))), 2, 160)
copies = Cuda("copies", COPIES, _arguments("int32", ("x", (2, 6, 512)), ("y", (2, 128))), 2, 128)
pair = Cuda("pair", PAIR, _arguments("int32", ("x", (4, 4, 512)), ("y", (4, 128))), 4, 128, 2)
flags = Cuda(
    "flags",
    FLAGS,
    (
        *_arguments("int32", ("x", (3, 128)), ("running", (3,)), ("shares", (3, 128)), ("total", (128,))),
        *_arguments("uint32", ("flag", (3,)), ("count", (1,))),
    ),
    3,
    128,
)
