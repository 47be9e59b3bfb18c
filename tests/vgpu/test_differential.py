"""One source of random expressions, compiled to PTX by NVRTC and for the host by g++: the bits must agree."""

from __future__ import annotations

import ctypes
import random
import subprocess

import numpy as np
import pytest

from tilewright import vgpu

EXPRESSIONS = 300
THREADS = 256
INPUT = np.dtype(
    [
        ("a", "<u4"),
        ("b", "<u4"),
        ("c", "<u4"),
        ("pad", "<u4"),
        ("d", "<u8"),
        ("e", "<u8"),
        ("f", "<f4"),
        ("g", "<f4"),
        ("h", "<f4"),
        ("pad2", "<u4"),
        ("x", "<f8"),
        ("y", "<f8"),
    ]
)
HEAD = """
#ifdef __CUDACC__
#define HD __host__ __device__ __forceinline__
typedef unsigned int uint32_t; typedef unsigned long long uint64_t; typedef int int32_t;
typedef long long int64_t;
typedef unsigned short uint16_t; typedef short int16_t; typedef unsigned char uint8_t; typedef signed char int8_t;
HD uint32_t bits(float x) { return __float_as_uint(x); }
HD uint64_t bits(double x) { return __double_as_longlong(x); }
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#define HD static inline
static inline uint32_t bits(float x) { uint32_t r; std::memcpy(&r, &x, 4); return r; }
static inline uint64_t bits(double x) { uint64_t r; std::memcpy(&r, &x, 8); return r; }
using std::fabs; using std::sqrt; using std::fma; using std::floor; using std::ceil; using std::trunc; using std::rint;
using std::fmin; using std::fmax; using std::copysign;
#endif
struct In { uint32_t a, b, c, pad; uint64_t d, e; float f, g, h; uint32_t pad2; double x, y; };
HD uint64_t canonical(float x) { return x != x ? 1 : bits(x); }
HD uint64_t canonical(double x) { return x != x ? 1 : bits(x); }
HD uint64_t canonical(uint32_t x) { return x; }
HD uint64_t canonical(uint64_t x) { return x; }
// The sign and payload of a NaN are the machine's own.
HD float known(float x) { return x != x ? 1 : x; }
HD double known(double x) { return x != x ? 1 : x; }
HD int32_t s32(uint32_t x) { return (int32_t)x; }
HD int64_t s64(uint64_t x) { return (int64_t)x; }
HD int64_t to_long(double x) { return fabs(x) < 9e18 ? (int64_t)x : 7; }
HD int32_t to_int(float x) { return fabs(x) < 2e9f ? (int32_t)x : 7; }
HD uint32_t to_uint(float x) { return x >= 0 && x < 4e9f ? (uint32_t)x : 7u; }
"""


class Expressions:
    """Random expressions of the types u32, u64, f32 and f64 without undefined behaviour."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def make(self, kind: str, depth: int) -> str:
        if depth == 0:
            return self.leaf(kind)
        return {"u32": self.word, "u64": self.long, "f32": self.real, "f64": self.real}[kind](kind, depth - 1)

    def leaf(self, kind: str) -> str:
        pick = self.rng.choice
        if kind == "u32":
            return pick(["in.a", "in.b", "in.c", f"{self.rng.getrandbits(32)}u", f"{self.rng.randrange(40)}u"])
        if kind == "u64":
            return pick(["in.d", "in.e", "(uint64_t)in.a", f"{self.rng.getrandbits(64)}ull"])
        return pick(
            ["in.f", "in.g", "in.h", "1.5f", "(-0.0f)"] if kind == "f32" else ["in.x", "in.y", "(double)in.f", "0.1"]
        )

    def word(self, kind: str, depth: int) -> str:
        def e(k: str = "u32") -> str:
            return self.make(k, depth)

        return self.rng.choice(
            [
                lambda: f"({e()} {self.rng.choice('+-*&|^')} {e()})",
                lambda: f"({e()} << ({e()} & 31))",
                lambda: f"({e()} >> ({e()} & 31))",
                lambda: f"(uint32_t)(s32({e()}) >> ({e()} & 31))",
                lambda: f"({e()} / ({e()} | 1u))",
                lambda: f"({e()} % ({e()} | 1u))",
                lambda: f"(uint32_t)(s32({e()}) / (s32({e()} >> 2) | 1))",
                lambda: f"(uint32_t)(s32({e()}) % (s32({e()} >> 2) | 1))",
                lambda: f"(uint32_t)(((uint64_t){e()} * {e()}) >> 32)",
                lambda: f"(uint32_t)(((int64_t)s32({e()}) * s32({e()})) >> 32)",
                lambda: f"(s32({e()}) < s32({e()}) ? {e()} : {e()})",
                lambda: f"({e()} >= {e()} ? {e()} : {e()})",
                lambda: f"(uint32_t)({e('f32')} < {e('f32')})",
                lambda: f"(uint32_t)({e('f64')} != {e('f64')})",
                lambda: f"(uint32_t)(int32_t)(int8_t){e()}",
                lambda: f"(uint32_t)(uint8_t){e()}",
                lambda: f"(uint32_t)(int32_t)(int16_t){e()}",
                lambda: f"(uint32_t)(uint16_t)((uint16_t){e()} * (uint32_t)(uint16_t){e()})",
                lambda: f"(uint32_t){e('u64')}",
                lambda: f"(uint32_t)to_int({e('f32')})",
                lambda: f"to_uint({e('f32')})",
                lambda: f"bits(known({e('f32')}))",
                lambda: f"(~{e()})",
            ]
        )()

    def long(self, kind: str, depth: int) -> str:
        def e(k: str = "u64") -> str:
            return self.make(k, depth)

        return self.rng.choice(
            [
                lambda: f"({e()} {self.rng.choice('+-*&|^')} {e()})",
                lambda: f"({e()} << ({e('u32')} & 63))",
                lambda: f"({e()} >> ({e('u32')} & 63))",
                lambda: f"(uint64_t)(s64({e()}) >> ({e('u32')} & 63))",
                lambda: f"({e()} / ({e()} | 1u))",
                lambda: f"(uint64_t)(s64({e()}) % (s64({e()} >> 2) | 1))",
                lambda: f"(uint64_t)(((unsigned __int128){e()} * {e()}) >> 64)",
                lambda: f"(s64({e()}) < s64({e()}) ? {e()} : {e()})",
                lambda: f"((uint64_t){e('u32')} * {e('u32')})",
                lambda: f"(uint64_t)((int64_t)s32({e('u32')}) * s32({e('u32')}))",
                lambda: f"(uint64_t)to_long({e('f64')})",
                lambda: f"bits(known({e('f64')}))",
                lambda: f"(uint64_t)(((unsigned __int128){e()} << 64 | {e()}) >> ({e('u32')} & 127))",
                lambda: f"(uint64_t)((((unsigned __int128){e()} << 64 | {e()}) + {e()}) >> 64)",
            ]
        )()

    def real(self, kind: str, depth: int) -> str:
        suffix = "f" if kind == "f32" else ""

        def e(k: str = kind) -> str:
            return self.make(k, depth)

        other = {"f32": lambda: f"(float){e('f64')}", "f64": lambda: f"(double){e('f32')}"}[kind]
        cast = "float" if kind == "f32" else "double"
        return self.rng.choice(
            [
                lambda: f"({e()} {self.rng.choice('+-*/')} {e()})",
                lambda: f"({e()} {self.rng.choice('+-*')} {e()})",
                lambda: f"fma{suffix}({e()}, {e()}, {e()})",
                lambda: f"sqrt{suffix}(fabs{suffix}({e()}))",
                other,
                lambda: f"floor{suffix}({e()})",
                lambda: f"ceil{suffix}({e()})",
                lambda: f"trunc{suffix}({e()})",
                lambda: f"rint{suffix}({e()})",
                lambda: f"fabs{suffix}({e()})",
                lambda: f"(- {e()})",
                lambda: f"copysign{suffix}({e()}, known({e()}))",
                lambda: f"({e()} < {e()} ? {e()} : {e()})",
                lambda: f"({cast})s32({e('u32')})",
                lambda: f"({cast}){e('u32')}",
                lambda: f"({cast})s64({e('u64')})",
                lambda: f"({cast}){e('u64')}",
            ]
        )()


def make_source(seed: int) -> str:
    make = Expressions(seed)
    kinds = ["u32", "u64", "f32", "f64"]
    casts = {"u32": "uint32_t", "u64": "uint64_t", "f32": "float", "f64": "double"}
    made = [(casts[kinds[k % 4]], make.make(kinds[k % 4], 1 + k % 3)) for k in range(EXPRESSIONS)]
    lines = [f"  out[{k}] = canonical(({cast})({text}));" for k, (cast, text) in enumerate(made)]
    parts = [lines[k : k + 50] for k in range(0, EXPRESSIONS, 50)]
    functions = "".join(
        f"HD void part{k}(const In& in, uint64_t* out) {{\n" + "\n".join(p) + "\n}\n" for k, p in enumerate(parts)
    )
    calls = "".join(f" part{k}(in, out);" for k in range(len(parts)))
    device = f"""extern "C" __global__ void k(const In* all, uint64_t* result) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const In in = all[i]; uint64_t* out = result + i * {EXPRESSIONS};{calls} }}"""
    host = f"""extern "C" void host(const In* all, uint64_t* result, int n) {{
  for (int i = 0; i < n; ++i) {{ const In in = all[i]; uint64_t* out = result + i * {EXPRESSIONS};{calls} }} }}"""
    return HEAD + functions + f"#ifdef __CUDACC__\n{device}\n#else\n{host}\n#endif\n"


def make_inputs(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    inputs = np.zeros(THREADS, INPUT)
    edges = np.array([0, 1, 2, 31, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x8000], np.uint64)
    for name in "abc":
        inputs[name] = np.where(rng.random(THREADS) < 0.3, rng.choice(edges, THREADS), rng.integers(0, 2**32, THREADS))
    for name in "de":
        inputs[name] = rng.integers(0, 2**64, THREADS, np.uint64)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-41, 3e38, 0.5, 2.5, -1.5, 16777217.0])
    for name in "fghxy":
        wide = rng.standard_normal(THREADS) * 10.0 ** rng.integers(-6, 10, THREADS)
        inputs[name] = np.where(rng.random(THREADS) < 0.25, rng.choice(special, THREADS), wide)
    return inputs


def run_on_host(source: str, inputs: np.ndarray, folder) -> np.ndarray:
    code, library = folder / "host.cpp", folder / "host.so"
    code.write_text(source)
    flags = [
        "-O1",
        "-std=c++17",
        "-ffp-contract=off",
        "-fwrapv",
        "-fno-strict-aliasing",
        "-w",
        "-mfma",
        "-shared",
        "-fPIC",
    ]
    subprocess.run(["g++", *flags, str(code), "-o", str(library)], check=True)
    result = np.zeros((THREADS, EXPRESSIONS), np.uint64)
    ctypes.CDLL(str(library)).host(
        inputs.ctypes.data_as(ctypes.c_void_p), result.ctypes.data_as(ctypes.c_void_p), THREADS
    )
    return result


@pytest.mark.parametrize(
    ("seed", "arch", "flags"), [(1, "sm_80", ()), (2, "sm_90a", ()), (3, "sm_89", ("--device-debug",))]
)
def test_random_expressions_agree_with_the_host_compiler(seed, arch, flags, tmp_path, cuda_to_ptx):
    source, inputs = make_source(seed), make_inputs(seed)
    want = run_on_host(source, inputs, tmp_path)
    ptx = cuda_to_ptx(source, arch, "--fmad=false", "-device-int128", *flags)
    got = np.zeros_like(want)
    report = vgpu.launch(ptx, "k", THREADS // 64, 64, [inputs.view(np.uint8), got], target=arch, threads=1)
    assert report.ok, str(report)
    wrong = np.argwhere(got != want)
    text = [line for line in source.split("\n") if line.startswith("  out[")]
    shown = [f"{text[k]} in thread {t}: {got[t, k]:#x}, host {want[t, k]:#x}" for t, k in wrong[:5]]
    assert len(wrong) == 0, "\n".join(shown)
