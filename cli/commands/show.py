"""``tilewright show``: any stage of a kernel as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..errors import unknown
from ..families import families_of
from ..options import subject_options
from ..outcome import Outcome, finish, table
from ..settings import parse_settings
from ..subject import choice_of, subject_of
from ..trial import Choice

if TYPE_CHECKING:
    from tilewright.dsl import Program


def _outcome(subject: str, stage: str, settings: tuple[str, ...], target: str | None, schedule: str | None) -> Outcome:
    choice = choice_of(target, schedule)
    program, own = subject_of(subject).program(parse_settings(settings), choice)
    data = {"subject": subject, "target": choice.target.name, "stage": stage}
    if stage == "outline":
        text = str(program.outline())
        return Outcome({**data, "text": text}, (text,))
    if stage == "resources":
        return _resources(data, program, own)
    from tilewright.lowering import record_stages

    stages = record_stages(program, own.schedule, own.target)
    if stage not in stages:
        raise unknown("stage", stage, stages)
    return Outcome({**data, "text": stages[stage]}, (stages[stage],))


def _resources(data: dict[str, Any], program: Program, choice: Choice) -> Outcome:
    from tilewright.lowering import lower

    artifact = lower(program, choice.schedule, choice.target)
    families = families_of(artifact.ptx)
    kernels = [asdict(resources) for resources in artifact.resources]
    rows = [(name, *(kernel[name] for kernel in kernels)) for name in kernels[0]]
    views = (
        table(artifact.plan.name, ("resource", *(["value"] * len(kernels))), rows),
        table("instructions in the PTX", ("family", "count"), list(families.items())),
    )
    return Outcome({**data, "resources": kernels, "instructions": families, "remarks": list(artifact.remarks)}, views)


@click.command()
@subject_options
@click.option("--stage", default="outline", show_default=True, metavar="NAME", help="Which stage; see above.")
def show(
    subject: str, stage: str, settings: tuple[str, ...], target: str | None, schedule: str | None, as_json: bool
) -> None:
    """Print one stage of SUBJECT (an operator or path.py:factory).

    Stages: outline, program, scheduled, passes (the index), any pass by its name in that index, cuda, ptx, sass,
    plan (how it is launched), resources, lines (SASS to PTX to CUDA to Python).
    """
    finish(lambda: _outcome(subject, stage, settings, target, schedule), as_json)
