"""Launches of PTX kernels on the virtual GPU."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tilewright import knobs

from . import _engine
from .errors import LaunchError
from .ptx import Encoder, Kernel, Module, Parameter, parse_module, source_chain
from .ptx.parse import TYPE_BYTES
from .report import KINDS, Finding, Report
from .tensor_map import TensorMap

MODES = {"eager": 0, "lazy": 1, "skew": 2, "skew-reverse": 3, "lazy-reverse": 4, "random": 5}
MAX_SHARED = {80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448, 100: 232_448, 103: 232_448, 120: 101_376}
_BUDGET = 400_000_000  # warp instructions of a block
_Range = tuple[int, int, str, bool]

_CACHED = 512  # modules, and kernels, that stay parsed
_modules: dict[str, Module] = {}
_kernels: dict[tuple[int, str], tuple[Module, Kernel]] = {}


def parse(ptx: str) -> Module:
    """Parses PTX text; the result is cached by content.

    Raises:
        PtxSyntaxError: malformed PTX, with its line.
    """
    module = _modules.get(ptx)
    if module is None:
        module = parse_module(ptx)
        _remember(_modules, ptx, module)
    return module


def _remember(cache: dict[Any, Any], key: Any, value: Any) -> None:
    """Adds an entry and drops the oldest beyond the limit."""
    cache[key] = value
    while len(cache) > _CACHED:
        cache.pop(next(iter(cache)), None)


def kernel_of(module: Module, entry: str) -> Kernel:
    """The encoded kernel ``entry``, cached.

    Raises:
        LaunchError: the module has no kernel of this name.
        UnsupportedInstruction: the kernel uses something the virtual GPU does not run.
    """
    cached = _kernels.get((id(module), entry))
    if cached is not None:
        return cached[1]
    function = module.functions.get(entry)
    if function is None or not function.entry or not function.defined:
        raise LaunchError(
            f"the module has no kernel {entry!r}", values={"kernels": ", ".join(module.entries) or "none"}
        )
    kernel = Encoder(module, function).run()
    _remember(_kernels, (id(module), entry), (module, kernel))  # keeps the module, hence its id, alive
    return kernel


def _triple(value: int | Sequence[int], name: str) -> list[int]:
    out = [value] if isinstance(value, int) else list(value)
    out += [1] * (3 - len(out))
    if len(out) != 3 or any(not isinstance(n, int) or n < 1 for n in out):
        raise LaunchError(f"{name} must be 1 to 3 positive whole numbers", values={name: value})
    return out


def _hull(tensor: Any, name: str) -> tuple[int, int]:
    """First and last-plus-one byte address that a strided view may touch."""
    if isinstance(tensor, TensorMap):
        lo, size = tensor.memory()
        return lo, lo + size
    interface = getattr(tensor, "__array_interface__", None)
    if hasattr(tensor, "data_ptr"):
        if getattr(tensor, "is_cuda", False):
            raise LaunchError(f"{name} lies on a GPU; the virtual GPU reads CPU memory", remedy="pass a CPU tensor")
        lo, size = tensor.data_ptr(), tensor.element_size()
        extents = zip(tensor.shape, tensor.stride(), strict=True)
        spans = [(int(n) - 1, int(s) * size) for n, s in extents]
        empty = tensor.numel() == 0
    elif interface is not None:
        lo, size = interface["data"][0], tensor.itemsize
        spans = [(n - 1, s) for n, s in zip(tensor.shape, tensor.strides, strict=True)]
        empty = tensor.size == 0
    else:
        raise LaunchError(f"{name} is not a tensor", values={"type": type(tensor).__name__})
    if empty:
        return lo, lo
    first = lo + sum(n * s for n, s in spans if s < 0)
    return first, lo + size + sum(n * s for n, s in spans if s > 0)


def _scalar_bytes(value: int | float, p: Parameter, name: str) -> bytes:
    size = p.size
    try:
        if p.type in ("f32", "f64"):
            return struct.pack("<f" if size == 4 else "<d", value)
        if isinstance(value, float):
            if p.type in ("b32", "b64"):
                return struct.pack("<f" if size == 4 else "<d", value)
            raise LaunchError(f"{name} is a float where the kernel takes .{p.type}", values={name: value})
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    except (OverflowError, struct.error):
        raise LaunchError(f"{name} does not fit .{p.type}", values={name: value}) from None


def _pack(kernel: Kernel, args: Sequence[Any]) -> tuple[bytes, list[_Range]]:
    if len(args) != len(kernel.parameters):
        raise LaunchError(
            f"the kernel takes {len(kernel.parameters)} arguments",
            values={"given": len(args), "parameters": ", ".join(f".{p.type} {p.name}" for p in kernel.parameters)},
        )
    params = bytearray(kernel.parameter_bytes)
    ranges: list[_Range] = []
    for k, (p, arg) in enumerate(zip(kernel.parameters, args, strict=True)):
        name = f"argument {k}"
        if isinstance(arg, TensorMap):
            data = arg.pack()
            ranges.append((*_hull(arg, name), name, True))
        elif isinstance(arg, bytes):
            data = arg
        elif isinstance(arg, int | float):
            data = _scalar_bytes(arg, p, name)
        elif arg is None:
            data = bytes(p.size)
        elif hasattr(arg, "item") and not getattr(arg, "shape", ()) and not hasattr(arg, "data_ptr"):
            data = _scalar_bytes(arg.item(), p, name)  # numpy scalar
        else:
            lo, hi = _hull(arg, name)
            address = arg.data_ptr() if hasattr(arg, "data_ptr") else arg.__array_interface__["data"][0]
            data = address.to_bytes(8, "little")
            ranges.append((lo, hi, name, True))
        if len(data) != p.size:
            raise LaunchError(
                f"{name} has {len(data)} bytes where the kernel takes {p.size}",
                values={"parameter": f".{p.type} {p.name}"},
            )
        params[p.offset : p.offset + p.size] = data
    return bytes(params), ranges


def architecture(target: str) -> int:
    """80 of ``sm_80``, 90 of ``sm_90a``.

    Raises:
        LaunchError: not a name of this form.
    """
    m = re.fullmatch(r"sm_(\d+)[af]?", target)
    if m is None:
        raise LaunchError(f"target {target!r} is not an architecture", remedy="use a name like sm_80, sm_89 or sm_90a")
    return int(m.group(1))


def _check_shape(kernel: Kernel, grid: list[int], block: list[int], cluster: list[int]) -> None:
    threads = block[0] * block[1] * block[2]
    if threads > 1024:
        raise LaunchError("a block has at most 1024 threads", values={"block": tuple(block)})
    for word, exact in ((r"\.reqntid", True), (r"\.maxntid", False)):
        m = re.search(word + r"\s+([\d\s,]+)", kernel.directives)
        if m is None:
            continue
        sizes = [int(n) for n in m.group(1).replace(" ", "").strip(",").split(",")]
        sizes += [1] * (3 - len(sizes))
        limit = sizes[0] * sizes[1] * sizes[2]
        if threads > limit or (exact and sizes != block):
            kind = "exactly" if exact else "at most"
            raise LaunchError(f"the kernel was compiled for {kind} {limit} threads", values={"block": tuple(block)})
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise LaunchError(
            "the grid is not a multiple of the cluster", values={"grid": tuple(grid), "cluster": tuple(cluster)}
        )


def _cluster_of(kernel: Kernel, cluster: int | Sequence[int] | None) -> list[int]:
    if cluster is not None:
        return _triple(cluster, "cluster")
    m = re.search(r"\.reqnctapercluster\s+([\d\s,]+)", kernel.directives)
    return _triple([int(n) for n in m.group(1).replace(" ", "").strip(",").split(",")], "cluster") if m else [1, 1, 1]


def launch(
    ptx: str | Module,
    entry: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    dynamic_smem: int = 0,
    cluster: int | Sequence[int] | None = None,
    target: str,
    mode: str | None = None,
    checks: Sequence[str] = (),
    threads: int | None = None,
    seed: int = 0,
    memory: Sequence[Any] = (),
    budget: int = _BUDGET,
) -> Report:
    """Runs a PTX kernel on the CPU and reports what it did wrong.

    Args:
        ptx: PTX text, or what :func:`parse` returned.
        entry: name of the kernel.
        grid, block: 1 to 3 extents.
        args: in the order of the kernel's parameters: CPU tensors or numpy arrays (a pointer to their first element;
            legal bytes are the hull of the view), numbers (typed by the parameter), ``TensorMap``, ``bytes`` for a
            parameter passed by value, None for a null pointer.
        dynamic_smem: bytes of dynamic shared memory.
        cluster: extents of a cluster in blocks; default: what the kernel requires.
        target: architecture, ``"sm_90a"``.
        mode: ``eager`` (asynchronous work lands at once), ``lazy`` (as late as the rules allow), ``skew`` and
            ``skew-reverse`` (warps one after another), ``lazy-reverse`` (both), ``random``; default: the knob
            ``TILEWRIGHT_VGPU_MODE``.
        checks: reserved for optional checks; the standard ones are always on.
        threads: host threads; default: the knob ``TILEWRIGHT_VGPU_THREADS``, else the number of CPUs.
        seed: of ``random``.
        memory: further tensors that pointers stored in memory may reach.
        budget: warp instructions that a block may run before the launch is given up.

    Raises:
        LaunchError: the launch does not fit the kernel.
        PtxSyntaxError, UnsupportedInstruction: the PTX cannot be run.
    """
    module = parse(ptx) if isinstance(ptx, str) else ptx
    kernel = kernel_of(module, entry)
    mode = mode or knobs.VGPU_MODE.text() or "eager"
    shape = (_triple(grid, "grid"), _triple(block, "block"), _cluster_of(kernel, cluster))
    _check_shape(kernel, *shape)
    _check_options(kernel, mode, checks, target, dynamic_smem)
    params, ranges = _pack(kernel, args)
    ranges += [(*_hull(t, f"memory {k}"), f"memory {k}", True) for k, t in enumerate(memory)]
    workers = threads or knobs.VGPU_THREADS.number() or os.cpu_count() or 1
    found, instructions, output, _ = _engine.launch(
        kernel.program, kernel.entry, *shape, params, kernel.static_shared, dynamic_smem, kernel.local_bytes, ranges,
        MODES[mode], seed, budget, workers,
    )  # fmt: skip
    findings = tuple(_finding(module, kernel, entry, shape[1], f) for f in found)
    return Report(entry, mode, findings, {"instructions": instructions}, output.decode(errors="replace"))


def _check_options(kernel: Kernel, mode: str, checks: Sequence[str], target: str, dynamic_smem: int) -> None:
    if mode not in MODES:
        raise LaunchError(f"mode {mode!r} is not a scheduling mode", remedy=f"use one of {', '.join(MODES)}")
    if checks:
        raise LaunchError("there are no optional checks", values={"checks": tuple(checks)})
    limit = MAX_SHARED.get(architecture(target), 101_376)
    if dynamic_smem < 0 or kernel.static_shared + dynamic_smem > limit:
        raise LaunchError(
            f"the block needs more shared memory than {target} has",
            values={"static": kernel.static_shared, "dynamic": dynamic_smem, "limit": limit},
        )


@lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def _finding(module: Module, kernel: Kernel, entry: str, block: list[int], raw: tuple[Any, ...]) -> Finding:
    kind, message, where, warp, lane, line, count = raw
    thread = None
    if warp >= 0 and lane >= 0:
        flat = 32 * warp + lane
        thread = (flat % block[0], flat // block[0] % block[1], flat // block[0] // block[1])
    text = " ".join(_lines(module.text)[line - 1].split()) if line else ""
    sources = source_chain(kernel.function_at(line), module.files, line) if line else ()
    return Finding(KINDS[kind], message, entry, where, thread, warp, lane, line, text, sources, count)


__all__ = ["MODES", "TYPE_BYTES", "architecture", "kernel_of", "launch", "parse"]
