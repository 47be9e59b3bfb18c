"""Launches of PTX kernels on the virtual GPU."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from tilewright import knobs

from . import _engine
from .errors import LaunchError, UnsupportedInstruction
from .hot import hot_lines, totals
from .ptx import Encoder, Kernel, Module, Parameter, SourceLine, parse_module, source_chain, source_chains
from .ptx.parse import TYPE_BYTES
from .report import KINDS, Finding, Report, Site
from .tensor_map import TensorMap
from .validate import check_blocks, check_request, directive, extents

MODES = {"eager": 0, "lazy": 1, "skew": 2, "skew-reverse": 3, "lazy-reverse": 4, "random": 5}
MAX_SHARED = {80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448, 100: 232_448, 103: 232_448, 120: 101_376}
CHECKS = {"race": 1, "banks": 2, "sectors": 4, "traffic": 8}
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


def _writable(arg: Any) -> bool:
    """Whether the memory may be written: not a read-only numpy array, such as a mapped file."""
    return hasattr(arg, "data_ptr") or not arg.__array_interface__["data"][1]


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
            ranges.append((lo, hi, name, _writable(arg)))
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
    for word, exact in (("reqntid", True), ("maxntid", False)):
        sizes = directive(kernel.directives, word)
        if sizes is None:
            continue
        limit = sizes[0] * sizes[1] * sizes[2]
        if threads > limit or (exact and sizes != block):
            kind = "exactly" if exact else "at most"
            raise LaunchError(f"the kernel was compiled for {kind} {limit} threads", values={"block": tuple(block)})
    check_blocks(grid, cluster)
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise LaunchError(
            "the grid is not a multiple of the cluster", values={"grid": tuple(grid), "cluster": tuple(cluster)}
        )


def _cluster_of(kernel: Kernel, cluster: int | Sequence[int] | None) -> list[int]:
    if cluster is not None:
        return extents(cluster, "cluster")
    sizes = directive(kernel.directives, "reqnctapercluster")
    return extents(sizes, "cluster") if sizes else [1, 1, 1]


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
    checks: Collection[str] = (),
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
        checks: names of optional checks, the standard ones are always on: ``race`` (accesses to shared or global
            memory that nothing orders, by vector clocks; also makes the proxy fence check exact), ``banks`` (bank
            conflicts), ``sectors`` (global sectors), ``traffic`` (instructions by class, bytes, FLOPs). The last three
            fill ``Report.counts`` and ``Report.hot``.
        threads: host threads; default: the knob ``TILEWRIGHT_VGPU_THREADS``, else the number of CPUs.
        seed: of ``random``.
        memory: further tensors that pointers stored in memory may reach.
        budget: warp instructions that a block may run before the launch is given up.

    Raises:
        LaunchError: the launch does not fit the kernel.
        PtxSyntaxError, UnsupportedInstruction: the PTX cannot be run.
    """
    mode = mode or knobs.VGPU_MODE.text() or "eager"
    numbers = {"dynamic_smem": dynamic_smem, "seed": seed, "budget": budget}
    lists = {"args": args, "memory": memory}
    check_request(ptx, {"entry": entry, "mode": mode, "target": target}, numbers, lists, threads)
    module = parse(ptx) if isinstance(ptx, str) else ptx
    kernel = kernel_of(module, entry)
    shape = (extents(grid, "grid"), extents(block, "block"), _cluster_of(kernel, cluster))
    _check_shape(kernel, *shape)
    wanted = _check_options(kernel, mode, checks, target, dynamic_smem)
    _check_target(kernel, target)
    params, ranges = _pack(kernel, args)
    ranges += [(*_hull(t, f"memory {k}"), f"memory {k}", True) for k, t in enumerate(memory)]
    workers = threads or knobs.VGPU_THREADS.number() or os.cpu_count() or 1
    found, instructions, output, _, rows = _engine.launch(
        kernel.program, kernel.entry, *shape, params, kernel.static_shared, dynamic_smem, kernel.local_bytes, ranges,
        MODES[mode], seed, budget, workers, sum(CHECKS[c] for c in wanted),
    )  # fmt: skip
    findings = tuple(_finding(module, kernel, entry, shape[1], f) for f in found)
    counts = {"instructions": instructions, **totals(rows, wanted)}
    hot = hot_lines(rows, _lines(module.text), _line_sources(module, kernel, [r[0] for r in rows]))
    return Report(entry, mode, findings, counts, output.decode(errors="replace"), hot)


def _check_options(
    kernel: Kernel, mode: str, checks: Collection[str], target: str, dynamic_smem: int
) -> frozenset[str]:
    if mode not in MODES:
        raise LaunchError(f"mode {mode!r} is not a scheduling mode", remedy=f"use one of {', '.join(MODES)}")
    if (
        isinstance(checks, str | bytes)
        or not isinstance(checks, Collection)
        or any(not isinstance(c, str) for c in checks)
    ):
        raise LaunchError("checks must be a collection of names", values={"checks": checks})
    wanted = frozenset(checks)
    unknown = sorted(wanted - CHECKS.keys())
    if unknown:
        raise LaunchError(f"check {unknown[0]!r} is not known", remedy=f"use some of {', '.join(CHECKS)}")
    limit = MAX_SHARED.get(architecture(target), 101_376)
    if dynamic_smem < 0 or kernel.static_shared + dynamic_smem > limit:
        raise LaunchError(
            f"the block needs more shared memory than {target} has",
            values={"static": kernel.static_shared, "dynamic": dynamic_smem, "limit": limit},
        )
    return wanted


def _check_target(kernel: Kernel, target: str) -> None:
    for need, opcode, line in kernel.needs:
        if not need.met_by(target):
            raise UnsupportedInstruction(
                f"PTX line {line}: {opcode} needs {need}; the target is {target}",
                values={"PTX line": line, "target": target},
                remedy=f"launch for a target that has it, or compile the kernel for {target}",
            )


@lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def _sources(module: Module, kernel: Kernel, line: int) -> tuple[SourceLine, ...]:
    return source_chain(kernel.function_at(line), module.files, line) if line else ()


def _line_sources(module: Module, kernel: Kernel, lines: Sequence[int]) -> dict[int, tuple[SourceLine, ...]]:
    of: dict[str, list[int]] = {}
    functions = {f.name: f for f in kernel.functions}
    for line in lines:
        of.setdefault(kernel.function_at(line).name, []).append(line)
    return {k: v for name, some in of.items() for k, v in source_chains(functions[name], module.files, some).items()}


def _thread(warp: int, lane: int, block: list[int]) -> tuple[int, int, int]:
    flat = 32 * warp + lane
    return (flat % block[0], flat // block[0] % block[1], flat // block[0] // block[1])


def _finding(module: Module, kernel: Kernel, entry: str, block: list[int], raw: tuple[Any, ...]) -> Finding:
    kind, message, where, warp, lane, line, count, other = raw
    thread = _thread(warp, lane, block) if warp >= 0 and lane >= 0 else None
    sources = _sources(module, kernel, line)
    site = None
    if other is not None:
        at, warp2, lane2, line2 = other
        text2 = _text(module, line2)
        site = Site(at, _thread(warp2, lane2, block), warp2, lane2, line2, text2, _sources(module, kernel, line2))
    text = _text(module, line)
    return Finding(KINDS[kind], message, entry, where, thread, warp, lane, line, text, sources, count, site)


def _text(module: Module, line: int) -> str:
    return " ".join(_lines(module.text)[line - 1].split()) if line else ""


__all__ = ["CHECKS", "MODES", "TYPE_BYTES", "architecture", "kernel_of", "launch", "parse"]
