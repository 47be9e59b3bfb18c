"""The virtual GPU as a device: CPU tensors, the same PTX and the same launch plan as on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tilewright import knobs, vgpu
from tilewright.lowering import Artifact, KernelLaunch, Parameter, PointerParameter, ScalarParameter

from ..context import counters, current_recording
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
        counters.add("launches")
        recording = current_recording() if self.reports is None else None
        asked = (recording.mode, dict(recording.options)) if recording is not None else (None, {})
        report = vgpu.launch(
            module,
            launch.kernel,
            grid,
            _evaluate(launch.block, values),
            [_argument(parameter, objects, values) for parameter in launch.parameters],
            dynamic_smem=launch.dynamic_shared.evaluate_in(values),
            cluster=launch.cluster,
            target=artifact.target.name,
            mode=self.mode or asked[0] or knobs.VGPU_MODE.text() or "eager",
            **{**dict(self.options), **asked[1]},
        )
        reports = self.reports if recording is None else recording.reports
        if reports is not None:
            reports.append(report)
        elif not report.ok:
            raise VirtualGpuFault.from_report(launch.kernel, report, tuple(report.findings))


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
    )
