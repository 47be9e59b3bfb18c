"""All stages of one lowering, by name, for people to read: one ordered mapping from the outline to SASS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from tilewright.dsl import Program, Target
from tilewright.schedules import Schedule

from .artifact import Artifact
from .disassemble import disassemble
from .linemap import line_map
from .lower import lower, lowered_source
from .options import Options
from .stages import PassRecorder, pass_texts


def record_stages(
    program: Program,
    schedule: Schedule | None = None,
    target: Target | None = None,
    options: Options | None = None,
) -> Mapping[str, str]:
    """The text of every stage: ``outline``, ``program``, ``scheduled``, ``passes`` (an index), the module after each
    TileLang pass by its name, ``cuda``, ``ptx``, ``sass``, ``plan``, ``resources`` and ``lines``.

    Raises:
        TilewrightError: as ``lower``; and when there is no disassembler.
    """
    schedule = schedule or Schedule()
    target = target or Target.default()
    options = options or Options()
    artifact = lower(program, schedule, target, options)
    scheduled = schedule.apply(program, target)
    recorder = PassRecorder()
    lowered_source(scheduled, target, options.merged(dict(scheduled.func.attrs.items())), (recorder,))
    return {
        "outline": str(program.outline()),
        "program": str(program.func.script()),
        "scheduled": str(scheduled.func.script()),
        **pass_texts(recorder.records),
        **artifact_stages(artifact),
    }


def artifact_stages(artifact: Artifact) -> Mapping[str, str]:
    """The stages that an artifact alone tells.

    Raises:
        ToolchainMissing: no disassembler.
    """
    return {
        "cuda": artifact.cuda,
        "ptx": artifact.ptx,
        "sass": disassemble(artifact),
        "plan": json.dumps(artifact.plan.to_json(), indent=2) + "\n",
        "resources": json.dumps([asdict(r) for r in artifact.resources], indent=2) + "\n",
        "lines": line_map(artifact, sass=True).text(),
    }
