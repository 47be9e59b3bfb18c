"""CUDA source to PTX and cubin in one NVRTC compilation, with precompiled headers."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dsl import Target

from .compile_errors import compile_error
from .errors import ToolchainMissing
from .pch import HEAP_BYTES, forget, precompiled
from .prelude import addition, prelude
from .spans import with_line_directives
from .toolchain import Toolchain, tilelang_folder

FILE_NAME = "/tilewright/kernel.cu"  # absolute, or the working directory would get into the line table
_GLOBAL = re.compile(r"^\.global [^=;]*?([\w$]+)(?:\[\d*\])?(?: = .*)?;$")
_WORD = re.compile(r"[A-Za-z_$%][\w$]*")


@dataclass(frozen=True)
class Compiled:
    """What one compilation gives."""

    ptx: str
    cubin: bytes
    log: str


def compile_cuda(cuda: str, target: Target, flags: Sequence[str] = (), toolchain: Toolchain | None = None) -> Compiled:
    """Compile generated CUDA for a target. Threads may call this at once.

    Raises:
        CompileError: NVRTC refused the source or a flag; the message shows the CUDA line and the kernel's line.
        ToolchainMissing: no NVRTC, or one that does not know the target.
    """
    chain = toolchain or Toolchain.find()
    require_arch(chain, target)
    options = _options(chain, target, flags)
    head = prelude(target)
    header = precompiled(head, options, lambda text, extra: _run(chain, text, [*options, *extra]))
    code, compiled = _run(chain, _source(head, cuda), [*options, *header])
    if code != 0 and header:
        # a precompiled header that cannot be opened is fatal to NVRTC, not to us
        code, compiled = _run(chain, _source(head, cuda), options)
        if code == 0:
            forget()
    if code != 0:
        plain = _without_line_directives(cuda)
        _, shown = _run(chain, _source(head, plain), options)
        raise compile_error(shown.log or compiled.log, cuda, plain, FILE_NAME)
    return compiled


def without_dead_globals(ptx: str) -> str:
    """PTX without the variables that nothing reads: ``-default-device`` turns every header constant into one."""
    lines = ptx.split("\n")
    declared = {i: found[1] for i, line in enumerate(lines) if (found := _GLOBAL.match(line))}
    used = set(_WORD.findall("\n".join(line for i, line in enumerate(lines) if i not in declared)))
    # an initialiser may name another variable
    used.update(*(_WORD.findall(lines[i].partition("=")[2]) for i in declared))
    return "\n".join(line for i, line in enumerate(lines) if i not in declared or declared[i] in used)


def version(chain: Toolchain) -> str:
    """NVRTC's version, such as ``13.0``."""
    code, major, minor = _nvrtc(chain).nvrtcVersion()
    return f"{major}.{minor}" if int(code) == 0 else "unknown"


@functools.cache
def supported_archs(chain: Toolchain) -> tuple[int, ...]:
    """Compute capabilities (times ten) that this NVRTC compiles for."""
    code, archs = _nvrtc(chain).nvrtcGetSupportedArchs()
    return tuple(int(arch) for arch in archs) if int(code) == 0 else ()


def require_arch(chain: Toolchain, target: Target) -> None:
    """Refuse a target that this NVRTC does not know.

    Raises:
        ToolchainMissing: naming the library, its version and what it supports.
    """
    archs = supported_archs(chain)
    if target.arch not in archs:
        raise ToolchainMissing(
            f"NVRTC {version(chain)} at {chain.nvrtc} does not compile for {target.name}",
            values={"supported": ", ".join(f"sm_{arch}" for arch in archs)},
            remedy="install CUDA 13.0 wheels, or set TILEWRIGHT_CUDA_HOME to a newer toolkit",
        )


@functools.cache
def _nvrtc(chain: Toolchain) -> Any:
    try:
        # loaded first, so that cuda-bindings and NVRTC itself use these libraries and search for no others
        for library in (*sorted(chain.nvrtc.parent.glob("libnvrtc-builtins.so.*")), chain.nvrtc):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
        nvrtc.nvrtcSetPCHHeapSize(HEAP_BYTES)
    except (OSError, ImportError, RuntimeError) as error:
        raise ToolchainMissing(
            f"NVRTC at {chain.nvrtc} cannot be loaded: {error}",
            remedy="pip install nvidia-cuda-nvrtc==13.0.88 'cuda-bindings==13.0.*'",
        ) from error
    return nvrtc


def _options(chain: Toolchain, target: Target, flags: Sequence[str]) -> list[str]:
    tilelang = tilelang_folder()
    folders = (tilelang / "src", tilelang / "3rdparty" / "cutlass" / "include", *chain.includes)
    return [
        f"--gpu-architecture={target.name}",
        "-default-device",
        "--std=c++17",
        *(f"-I{folder}" for folder in folders),
        "-lineinfo",
        "--ptxas-options=-v",
        "-diag-suppress=1444,20012",  # TileLang's templates: deprecated names, annotations without effect
        *flags,
    ]


def _source(head: str, cuda: str) -> str:
    return f'{head}{addition(cuda)}#line 1 "{FILE_NAME}"\n{with_line_directives(cuda)}'


def _without_line_directives(cuda: str) -> str:
    return "\n".join("" if line.lstrip().startswith("#line ") else line for line in cuda.split("\n"))


def _run(chain: Toolchain, source: str, options: Sequence[str]) -> tuple[int, Compiled]:
    nvrtc = _nvrtc(chain)
    code, program = nvrtc.nvrtcCreateProgram(source.encode(), FILE_NAME.encode(), 0, [], [])
    if int(code) != 0:
        raise ToolchainMissing(f"NVRTC at {chain.nvrtc} cannot start a compilation ({code.name})")
    try:
        encoded = [option.encode() for option in options]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if int(result) != 0:
            return int(result), Compiled("", b"", _text(log) or result.name)
        ptx = _read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        cubin = _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        return 0, Compiled(without_dead_globals(_text(ptx)), cubin, _text(log))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(size_of: Any, read: Any, program: Any) -> bytes:
    _, size = size_of(program)
    data = bytes(size + 1)  # written in place, so never the one object that Python keeps for a single byte
    read(program, data)
    return data[:size]


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace")
