"""``check``: a kernel run in every scheduling mode of the virtual GPU with its sanitizers, the results compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from tilewright import vgpu
from tilewright.dsl import Program, Target
from tilewright.schedules import Schedule

from .context import recording, use
from .errors import ArgumentError, OptionError
from .kernel import Kernel, compile
from .ranks import run_ranks, spread

MODES = tuple(vgpu.MODES)
CHECKS = ("race",)
_SUMS = 64  # roundings of the accumulator by which orders of addition may differ


@dataclass(frozen=True)
class Run:
    """One execution: its mode, the report of every launch, and what is wrong with its results.

    ``differences`` says how the results differ from those of the first mode, and what ``verify`` found.
    """

    mode: str
    reports: tuple[vgpu.Report, ...]
    differences: tuple[str, ...]


@dataclass(frozen=True)
class CheckReport:
    """What all runs found. ``findings`` holds each fault once, with the first mode that showed it."""

    subject: str
    runs: tuple[Run, ...]

    @property
    def ok(self) -> bool:
        """Whether no mode found a fault and all modes agree."""
        return not self.findings and not self.differences

    @property
    def findings(self) -> tuple[vgpu.Finding, ...]:
        """Faults of all modes, one for each kind and pair of source lines (PTX lines where there is no source)."""
        found: dict[tuple[object, ...], vgpu.Finding] = {}
        for run in self.runs:
            for report in run.reports:
                for finding in report.findings:
                    found.setdefault(_key(finding), finding)
        return tuple(found.values())

    @property
    def differences(self) -> tuple[str, ...]:
        """Results that depend on the order in which the hardware runs things."""
        return tuple(f"mode {run.mode}: {text}" for run in self.runs for text in run.differences)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "subject": self.subject,
            "ok": self.ok,
            "modes": [run.mode for run in self.runs],
            "launches": sum(len(run.reports) for run in self.runs),
            "findings": [finding.to_dict() for finding in self.findings],
            "differences": list(self.differences),
        }

    def __str__(self) -> str:
        modes = ", ".join(run.mode for run in self.runs)
        if self.ok:
            launches = sum(len(run.reports) for run in self.runs)
            return f"{self.subject}: nothing found in {launches} launches ({modes})"
        return "\n".join([f"{self.subject} ({modes})", *map(str, self.findings), *self.differences])


def _key(finding: vgpu.Finding) -> tuple[object, ...]:
    other = finding.other and (finding.other.source or finding.other.ptx_line)
    return finding.kernel, finding.kind, finding.source or finding.ptx_line, other


def check(
    subject: Kernel | Program | Callable[..., Any],
    *args: Any,
    modes: Sequence[str] = MODES,
    checks: Sequence[str] = CHECKS,
    target: Target | str | None = None,
    schedule: Schedule | None = None,
    seed: int = 0,
    budget: int | None = None,
    verify: Callable[..., Iterable[str]] | None = None,
    ranks: int | None = None,
    **keywords: Any,
) -> CheckReport:
    """Run a kernel, program or operator on the virtual GPU in several orders that hardware may choose.

    Tensors are copied before each run, so the caller's stay as they are. Results of all modes must agree
    to within 64 roundings of float32 and two of their own type (sums by atomics may differ in the last bits), exactly
    for integers.

    Args:
        subject: a kernel, a program (compiled here), or a function such as an operator that launches kernels.
        args: what it is called with; tensors on the CPU.
        modes: scheduling modes, from ``vgpu.MODES``.
        checks: sanitizers beyond the always-on ones.
        target: for a program or an operator; default as for ``compile``.
        schedule: for a program or an operator.
        seed: of the mode ``random``.
        budget: warp instructions that a block may run before its launch is given up; default: that of ``vgpu.launch``.
        verify: called after each run with the call's result and then its arguments, as the run left them; the texts
            that it gives say what is wrong with them.
        ranks: run a kernel or program on that many devices at once, over the same tensors; its parameter ``rank``
            takes the number of the device, whatever is given for it.
        keywords: further arguments of the call.

    Raises:
        OptionError: an unknown mode, a target or schedule given with a compiled kernel, or ranks of a kernel without
            a parameter ``rank``.
        ArgumentError: a tensor that is not on the CPU, or a call that launches nothing.
    """
    unknown = [mode for mode in modes if mode not in vgpu.MODES]
    if unknown or not modes:
        raise OptionError(f"check: modes = {list(modes)}", remedy=f"use some of {', '.join(vgpu.MODES)}")
    for name, value in [*((f"argument {i}", a) for i, a in enumerate(args)), *keywords.items()]:
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise ArgumentError(f"check: {name} is on {value.device}, the virtual GPU needs cpu", remedy="pass x.cpu()")
    call, name = _call_of(subject, target, schedule)
    limits = {} if budget is None else {"budget": budget}
    if ranks is not None:
        call = _ranked(call, name, ranks)
    runs: list[Run] = []
    first: list[torch.Tensor] | None = None
    with use(target=target, schedule=schedule), torch.no_grad(), _filled_outputs():
        for mode in modes:
            copies, named = _copy((list(args), keywords), {})
            with recording(mode, checks=tuple(checks), seed=seed, **limits) as reports:
                result = call(*copies, **named)
            results = _tensors([result, *copies, *named.values()])
            first = results if first is None else first
            wrong = () if verify is None else tuple(verify(result, *copies, **named))
            runs.append(Run(mode, tuple(reports), (*result_differences(first, results), *wrong)))
    if not any(run.reports for run in runs):
        raise ArgumentError(f"check: {name} launched no kernel on these arguments", remedy="give non-empty tensors")
    return CheckReport(name, tuple(runs))


def _call_of(
    subject: Kernel | Program | Callable[..., Any], target: Target | str | None, schedule: Schedule | None
) -> tuple[Callable[..., Any], str]:
    if isinstance(subject, Kernel):
        if target is not None or schedule is not None:
            raise OptionError(
                "check: a compiled kernel has its target and schedule", remedy="pass its program, or leave them away"
            )
        return subject, subject.plan.name
    if isinstance(subject, Program):
        return compile(subject, schedule, target), subject.name
    return subject, getattr(subject, "__name__", type(subject).__name__)


def _ranked(call: Callable[..., Any], name: str, ranks: int) -> Callable[..., Any]:
    if not isinstance(call, Kernel):
        raise OptionError(f"check: {name} is a function, and ranks = {ranks}", remedy="let it call tw.run_ranks itself")
    kernel = call
    return lambda *args, **keywords: run_ranks(kernel, spread(kernel, args, keywords, ranks))


@contextmanager
def _filled_outputs() -> Iterator[None]:
    """New tensors hold NaN, so that elements which a kernel leaves unwritten are the same in every run."""
    before, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


def _copy(value: Any, storages: dict[int, Any]) -> Any:
    """The same values in the same layout, in memory of their own; what shared memory shares it still."""
    if isinstance(value, dict):
        return {key: _copy(item, storages) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_copy(item, storages) for item in value])
    if not isinstance(value, torch.Tensor):
        return value
    storage: Any = value.detach().untyped_storage()
    if storage.data_ptr() not in storages:
        storages[storage.data_ptr()] = storage.clone()
    whole = torch.empty(0, dtype=value.dtype).set_(storages[storage.data_ptr()])
    return whole.as_strided(value.shape, value.stride(), value.storage_offset())


def _tensors(values: Any) -> list[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, Mapping):
        values = list(values.values())
    return [t for value in values for t in _tensors(value)] if isinstance(values, list | tuple) else []


def result_differences(first: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> Iterator[str]:
    """How results differ from those of another order, beyond what orders of addition make."""
    for index, (one, other) in enumerate(zip(first, results, strict=True)):
        if one.numel() == 0:
            continue
        if not one.is_floating_point():
            count = int((one != other).sum())
            if count:
                yield f"tensor {index}: {count} of {one.numel()} elements differ"
            continue
        a, b = one.double(), other.double()
        scale = a.nan_to_num(0, 0, 0).abs().max().item()
        own = torch.finfo(one.dtype).eps
        atol = (2 * own + _SUMS * min(own, torch.finfo(torch.float32).eps)) * scale
        same = torch.isclose(a, b, rtol=0.0, atol=atol, equal_nan=True)
        if not bool(same.all()):
            worst = (a - b).abs().nan_to_num(torch.inf).max().item()
            yield f"tensor {index}: {int((~same).sum())} of {one.numel()} elements differ, by up to {worst:.3g}"
