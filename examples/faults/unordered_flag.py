"""An unordered flag between two devices: the flag overtakes the data that it announces.

On hardware: a peer that now and then reads the previous step's values, mostly between GPUs that are far apart; nothing
within one GPU. Run it on two devices: ``tilewright check examples/faults/unordered_flag.py:unordered_flag --ranks 2``.
``--set scope=gpu`` orders the flag only for threads of the same device, which is not enough either.
"""

import tilewright as tw
from tilewright import language as T

STEP = 20_260_101  # a flag holds the number of the step whose data are there
SIGNALS = {
    "volatile": """
__device__ __forceinline__ void signal(int* flag) { *(volatile int*)flag = STEP; }
""",
    "gpu": """
__device__ __forceinline__ void signal(int* flag) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(flag), "r"(STEP) : "memory");
}
""",
    "sys": """
__device__ __forceinline__ void signal(int* flag) {
  asm volatile("st.release.sys.global.s32 [%0], %1;" :: "l"(flag), "r"(STEP) : "memory");
}
""",
}
AWAIT = """
__device__ __forceinline__ void await(const int* flag) {
  int seen = 0;
  while (seen != STEP) asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
}
"""


@tw.kernel
def unordered_flag(n=256, scope="volatile", fixed=False):
    helpers = f"\n#define STEP {STEP}" + SIGNALS["sys" if fixed else scope] + AWAIT

    @T.prim_func
    def main(
        x: T.Tensor((n,), "float32"),
        inbox: T.Tensor((2, n), "float32"),
        flags: T.Tensor((2,), "int32"),
        y: T.Tensor((2, n), "float32"),
        rank: T.int32,
    ):
        with T.Kernel(1, threads=n, prelude=helpers):
            t = T.get_thread_binding()
            inbox[1 - rank, t] = x[t] + T.cast(rank, "float32")  # other side
            T.sync_threads()
            if t == 0:
                T.call_extern("void", "signal", T.address_of(flags[1 - rank]))  # flag written
                T.call_extern("void", "await", T.address_of(flags[rank]))  # flag read
            T.sync_threads()
            y[rank, t] = inbox[rank, t]  # fault

    return main
