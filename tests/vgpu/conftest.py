"""A tiny PTX assembler for the tests: kernels from a body, one thread an element."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.bindings import nvrtc

from tilewright import vgpu
from tilewright.lowering import Toolchain

sys.path.insert(0, str(Path(__file__).parent))  # modules of this folder are importable by its tests

# numpy dtype -> (PTX load type, register type)
TYPES = {
    np.dtype(np.int8): ("s8", "b16"),
    np.dtype(np.uint8): ("u8", "b16"),
    np.dtype(np.int16): ("b16", "b16"),
    np.dtype(np.uint16): ("b16", "b16"),
    np.dtype(np.float16): ("b16", "b16"),
    np.dtype(np.int32): ("b32", "b32"),
    np.dtype(np.uint32): ("b32", "b32"),
    np.dtype(np.float32): ("f32", "f32"),
    np.dtype(np.int64): ("b64", "b64"),
    np.dtype(np.uint64): ("b64", "b64"),
    np.dtype(np.float64): ("f64", "f64"),
}


def make_kernel(body: str, params: int, *, registers: str = "", target: str = "sm_90a", module: str = "") -> str:
    """A module with kernel ``k`` of ``params`` 64-bit parameters p0, p1 ... ; %tid in %t, lots of registers."""
    names = ", ".join(f".param .u64 p{n}" for n in range(params))
    loads = "\n".join(f"ld.param.u64 %a{n}, [p{n}];" for n in range(params))
    return f""".version 8.7
.target {target}
.address_size 64
{module}
.visible .entry k({names})
{{
.reg .pred %p<32>;
.reg .b16 %h<32>;
.reg .b32 %r<64>;
.reg .f32 %f<64>;
.reg .b64 %d<64>;
.reg .f64 %g<32>;
.reg .b64 %a<16>;
.reg .b32 %t;
{registers}
{loads}
mov.u32 %t, %tid.x;
{body}
ret;
}}
"""


def launch_body(
    body: str, args: list[Any], *, block: int = 32, grid: int = 1, module: str = "", **options: Any
) -> vgpu.Report:
    """Runs :func:`make_kernel` of ``body`` on ``args``."""
    options.setdefault("target", "sm_90a")
    options.setdefault("threads", 1)
    return vgpu.launch(make_kernel(body, len(args), module=module), "k", grid, block, args, **options)


def elementwise(instruction: str, inputs: list[np.ndarray], out: Any) -> np.ndarray:
    """``instruction`` over arrays: its operands are %x0, %x1 ... and its result %y; one thread an element."""
    n = len(inputs[0])
    result = np.zeros(n, out)
    registers, lines = [], ["mov.u32 %t, %ctaid.x;", "mov.u32 %r0, %tid.x;", "mad.lo.u32 %t, %t, 128, %r0;"]
    lines += [f"setp.ge.u32 %p0, %t, {n};", "@%p0 ret;"]
    for k, array in enumerate([*inputs, result]):
        load, register = TYPES[array.dtype]
        name = "%y" if array is result else f"%x{k}"
        registers.append(f".reg .{register} {name};")
        lines.append(f"mad.wide.u32 %d{k}, %t, {array.itemsize}, %a{k};")
        if array is not result:
            lines.append(f"ld.global.{load} {name}, [%d{k}];")
    lines.append(instruction)
    lines.append(f"st.global.{TYPES[result.dtype][0]} [%d{len(inputs)}], %y;")
    ptx = make_kernel("\n".join(lines), len(inputs) + 1, registers="\n".join(registers))
    report = vgpu.launch(ptx, "k", -(-n // 128), 128, [*inputs, result], target="sm_90a", threads=1)
    assert report.ok, str(report)
    return result


@functools.cache
def cuda_to_ptx(source: str, arch: str = "sm_90a", *flags: str) -> str:
    """PTX of CUDA C source, by NVRTC."""
    chain = Toolchain.find()
    for library in (*sorted(chain.nvrtc.parent.glob("libnvrtc-builtins.so.*")), chain.nvrtc):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    options = [f"--gpu-architecture={arch}", "--std=c++17", "-lineinfo", *flags]
    options += [f"-I{folder}" for folder in chain.includes]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size  # the bindings write into the bytes object
    nvrtc.nvrtcGetProgramLog(program, log)
    assert int(code) == 0, log.decode()
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(program)
    return ptx.rstrip(b"\0").decode()


@pytest.fixture(name="cuda_to_ptx")
def cuda_to_ptx_fixture() -> Callable[..., str]:
    return cuda_to_ptx


@pytest.fixture(name="cuda_to_ptx_module", scope="module")
def cuda_to_ptx_module_fixture() -> Callable[..., str]:
    return cuda_to_ptx


@pytest.fixture(name="elementwise")
def elementwise_fixture() -> Callable[..., np.ndarray]:
    return elementwise


@pytest.fixture(name="launch_body")
def launch_body_fixture() -> Callable[..., vgpu.Report]:
    return launch_body


@pytest.fixture(name="make_kernel")
def make_kernel_fixture() -> Callable[..., str]:
    return make_kernel
