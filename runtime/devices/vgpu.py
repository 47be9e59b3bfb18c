"""The virtual GPU as a device: CPU tensors, the same PTX and the same launch plan as on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch

from tilewright import knobs, vgpu
from tilewright.lowering import Artifact, KernelLaunch, Parameter, PointerParameter, ScalarParameter, line_map

from ..context import counters, current_gathering, current_recording
from ..entry import Launcher, split
from ..errors import VirtualGpuFault
from ..signature import Signature


@dataclass(frozen=True)
class VgpuDevice:
    """Runs launches on the virtual GPU of the artifact's target; a finding raises ``VirtualGpuFault``.

    Args:
        mode: scheduling mode; None reads the knob ``TILEWRIGHT_VGPU_MODE``.
        options: further keyword arguments of ``vgpu.launch`` (checks, threads, seed, memory).
        reports: when given, receives the report of each launch and findings do not raise.
    """

    mode: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    reports: list[Any] | None = None

    def prepare(self, artifact: Artifact, signature: Signature, index: int) -> Launcher:
        """A launcher that evaluates the plan and runs every launch in order."""
        module = vgpu.parse(artifact.ptx)

        def launch(*flat: Any) -> None:
            objects, _, values = split(signature, flat)
            for one in signature.plan.launches:
                self._run(module, artifact, one, objects, values)

        return launch

    def _run(
        self,
        module: Any,
        artifact: Artifact,
        launch: KernelLaunch,
        objects: Mapping[str, Any],
        values: Mapping[str, Any],
    ) -> None:
        grid = _evaluate(launch.grid, values)
        if 0 in grid:
            return
        gathering = current_gathering()
        options = dict(self.options)
        one = vgpu.Launch(
            module,
            launch.kernel,
            grid,
            _evaluate(launch.block, values),
            [_argument(parameter, objects, values) for parameter in launch.parameters],
            gathering.device if gathering else 0,
            launch.dynamic_shared.evaluate_in(values),
            launch.cluster,
            gathering.memory if gathering else options.pop("memory", ()),
        )
        if gathering is not None:
            gathering.grids.append(one)
        else:
            run_grids(artifact, [one], self.mode, options, self.reports)


def run_grids(
    artifact: Artifact,
    grids: Sequence[vgpu.Launch],
    mode: str | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    reports: list[Any] | None = None,
) -> None:
    """Run grids of an artifact at once; what the kernels print goes to stdout, unless the report is kept.

    Args:
        artifact: what the grids were launched from.
        grids: what to run.
        mode: scheduling mode; None reads the recording, then the knob ``TILEWRIGHT_VGPU_MODE``.
        options: further keyword arguments of ``vgpu.launch_many``.
        reports: receives the report; None gives it to the recording, if there is one.

    Raises:
        VirtualGpuFault: there are findings, and nobody receives the report.
    """
    counters.add("launches", len(grids))
    recording = current_recording() if reports is None else None
    asked = dict(recording.options) if recording is not None else {}
    chosen = mode or (recording.mode if recording is not None else None) or knobs.VGPU_MODE.text() or "eager"
    report = vgpu.launch_many(grids, target=artifact.target.name, mode=chosen, **{**options, **asked})
    report = _with_cuda_lines(report, artifact)
    receiver = reports if recording is None else recording.reports
    if receiver is not None:
        receiver.append(report)
        return
    if report.output:
        sys.stdout.write(report.output)
    if not report.ok:
        raise VirtualGpuFault.from_report(report.kernel, report, tuple(report.findings))


def _with_cuda_lines(report: vgpu.Report, artifact: Artifact) -> vgpu.Report:
    """The report with the lines of the generated CUDA in its findings."""
    if report.ok:
        return report
    lines = line_map(artifact)

    def cuda(ptx_line: int) -> int:
        record = lines.of_ptx(ptx_line)
        return record.cuda if record is not None else 0

    findings = [
        replace(f, cuda_line=cuda(f.ptx_line), other=f.other and replace(f.other, cuda_line=cuda(f.other.ptx_line)))
        for f in report.findings
    ]
    return replace(report, findings=tuple(findings))


def _evaluate(expressions: Sequence[Any], values: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(expression.evaluate_in(values)) for expression in expressions)


def _argument(parameter: Parameter, objects: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    if isinstance(parameter, PointerParameter):
        value = objects[parameter.tensor]
        return value.detach() if isinstance(value, torch.Tensor) else value
    if isinstance(parameter, ScalarParameter):
        return parameter.value.evaluate_in(values)
    return vgpu.TensorMap(
        objects[parameter.tensor].detach(),
        parameter.dtype,
        _evaluate(parameter.dims, values),
        _evaluate(parameter.strides, values),
        _evaluate(parameter.box, values),
        _evaluate(parameter.element_strides, values),
        interleave=parameter.interleave,
        swizzle=parameter.swizzle,
        l2_promotion=parameter.l2_promotion,
        oob_fill=parameter.oob_fill,
        lower_corner=parameter.lower_corner or None,
        upper_corner=parameter.upper_corner or None,
    )
