"""Launches of PTX kernels on the virtual GPU."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import knobs

from . import _engine
from .arguments import pack, reach
from .errors import LaunchError, UnsupportedInstruction
from .hot import totals
from .ptx import Encoder, Kernel, Module, parse_module
from .ptx.parse import TYPE_BYTES
from .report import Report
from .results import Grid, finding, hot
from .validate import check_blocks, check_request, check_settings, directive, extents

MODES = {"eager": 0, "lazy": 1, "skew": 2, "skew-reverse": 3, "lazy-reverse": 4, "random": 5}
MAX_SHARED = {80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448, 100: 232_448, 103: 232_448, 120: 101_376}
# Multiprocessors, for %nsmid: A100, A10, AGX Orin, L40S, H100 SXM, B200, B300, GeForce RTX 5090 (data sheets).
PROCESSORS = {80: 108, 86: 72, 87: 16, 89: 142, 90: 132, 100: 148, 103: 148, 120: 170}
CHECKS = {"race": 1, "banks": 2, "sectors": 4, "traffic": 8}
_UNCHECKED = 16
_BUDGET = 400_000_000  # warp instructions of a block

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


@dataclass(frozen=True)
class Launch:
    """One grid of :func:`launch_many`.

    Attributes:
        ptx: PTX text, or what :func:`parse` returned.
        entry: name of the kernel.
        grid, block: 1 to 3 extents.
        args: as for :func:`launch`.
        device: the device that it runs on, from 0; grids may share one.
        dynamic_smem: bytes of dynamic shared memory.
        cluster: extents of a cluster in blocks; default: what the kernel requires.
        memory: further tensors that its threads may reach, such as those of other devices.
    """

    ptx: str | Module
    entry: str
    grid: int | Sequence[int]
    block: int | Sequence[int]
    args: Sequence[Any]
    device: int = 0
    dynamic_smem: int = 0
    cluster: int | Sequence[int] | None = None
    memory: Sequence[Any] = ()


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
    checks: Collection[str] | None = (),
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
            fill ``Report.counts`` and ``Report.hot``. None turns off the standard ones too, to measure what they
            cost: nothing stops a faulty kernel from ending the process then.
        threads: host threads; default: the knob ``TILEWRIGHT_VGPU_THREADS``, else the number of CPUs.
        seed: of ``random``.
        memory: further tensors that pointers stored in memory may reach.
        budget: warp instructions that a block may run before the launch is given up.

    Raises:
        LaunchError: the launch does not fit the kernel.
        PtxSyntaxError, UnsupportedInstruction: the PTX cannot be run.
    """
    one = Launch(ptx, entry, grid, block, args, 0, dynamic_smem, cluster, memory)
    return launch_many([one], target=target, mode=mode, checks=checks, threads=threads, seed=seed, budget=budget)


def launch_many(
    launches: Sequence[Launch],
    *,
    target: str,
    mode: str | None = None,
    checks: Collection[str] | None = (),
    threads: int | None = None,
    seed: int = 0,
    budget: int = _BUDGET,
) -> Report:
    """Runs several grids at once, each on its device, all in one address space.

    A grid that waits for what another one writes lets it run. In the modes ``skew`` and ``skew-reverse`` the grids go
    one after another as far as they can, first to last and last to first; in the others they take turns. The check
    ``race`` spans devices: operations of scope ``.gpu`` or narrower order nothing between two of them.

    Args:
        launches: the grids; a tensor that several devices reach is an argument, or in ``memory``, of each.
        target, mode, checks, threads, seed, budget: as for :func:`launch`.

    Returns:
        One report: its counts are sums, its findings name device and kernel.

    Raises:
        LaunchError: there is no grid, or one does not fit its kernel.
        PtxSyntaxError, UnsupportedInstruction: the PTX cannot be run.
    """
    if isinstance(launches, str | bytes) or not isinstance(launches, Sequence) or not launches:
        raise LaunchError("launches must be a sequence of at least one Launch", values={"launches": launches})
    mode = mode or knobs.VGPU_MODE.text() or "eager"
    check_settings({"mode": mode, "target": target}, {"seed": seed, "budget": budget}, threads)
    wanted = _check_options(mode, () if checks is None else checks)
    grids = [_prepare(one, target) for one in launches]
    workers = threads or knobs.VGPU_THREADS.number() or os.cpu_count() or 1
    watch = _UNCHECKED if checks is None else sum(CHECKS[c] for c in wanted)
    found, instructions, output, rows = _engine.launch(
        [g.request for g in grids], MODES[mode], seed, budget, workers, watch
    )
    name = ", ".join(dict.fromkeys(g.entry for g in grids))
    findings = tuple(finding(grids, f) for f in found)
    counts = {"instructions": instructions, **totals([r for some in rows for r in some], wanted)}
    return Report(name, mode, findings, counts, output.decode(errors="replace"), hot(grids, rows))


def _prepare(one: Launch, target: str) -> Grid:
    numbers = {"dynamic_smem": one.dynamic_smem, "device": one.device}
    check_request(one.ptx, {"entry": one.entry}, numbers, {"args": one.args, "memory": one.memory})
    module = parse(one.ptx) if isinstance(one.ptx, str) else one.ptx
    kernel = kernel_of(module, one.entry)
    shape = (extents(one.grid, "grid"), extents(one.block, "block"), _cluster_of(kernel, one.cluster))
    _check_shape(kernel, *shape)
    _check_shared(kernel, target, one.dynamic_smem)
    _check_target(kernel, target)
    params, ranges = pack(kernel, one.args)
    for k, tensor in enumerate(one.memory):
        ranges += reach(tensor, f"memory {k}")
    request = (
        kernel.program, kernel.entry, *shape, params, kernel.static_shared, one.dynamic_smem, kernel.local_bytes,
        ranges, one.device, PROCESSORS.get(architecture(target), PROCESSORS[90]),
    )  # fmt: skip
    return Grid(module, kernel, one.entry, shape[1], one.device, request)


def _check_target(kernel: Kernel, target: str) -> None:
    for need, opcode, line in kernel.needs:
        if not need.met_by(target):
            raise UnsupportedInstruction(
                f"PTX line {line}: {opcode} needs {need}; the target is {target}",
                values={"PTX line": line, "target": target},
                remedy=f"launch for a target that has it, or compile the kernel for {target}",
            )


def _check_options(mode: str, checks: Collection[str]) -> frozenset[str]:
    if mode not in MODES:
        raise LaunchError(f"mode {mode!r} is not a scheduling mode", remedy=f"use one of {', '.join(MODES)}")
    if (
        isinstance(checks, str | bytes)
        or not isinstance(checks, Collection)
        or any(not isinstance(c, str) for c in checks)
    ):
        raise LaunchError("checks must be a collection of names", values={"checks": checks})
    unknown = sorted(frozenset(checks) - CHECKS.keys())
    if unknown:
        raise LaunchError(f"check {unknown[0]!r} is not known", remedy=f"use some of {', '.join(CHECKS)}")
    return frozenset(checks)


def _check_shared(kernel: Kernel, target: str, dynamic_smem: int) -> None:
    limit = MAX_SHARED.get(architecture(target), 101_376)
    if kernel.static_shared + dynamic_smem > limit:
        raise LaunchError(
            f"the block needs more shared memory than {target} has",
            values={"static": kernel.static_shared, "dynamic": dynamic_smem, "limit": limit},
        )


__all__ = ["CHECKS", "MODES", "TYPE_BYTES", "Launch", "architecture", "kernel_of", "launch", "launch_many", "parse"]
