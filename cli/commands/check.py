"""``tilewright check``: every scheduling mode, every sanitizer."""

from __future__ import annotations

import click

from ..options import subject_options
from ..outcome import Outcome, finish
from ..settings import parse_settings
from ..subject import choice_of, subject_of


def _outcome(
    subject: str, settings: tuple[str, ...], target: str | None, schedule: str | None, ranks: int | None
) -> Outcome:
    choice = choice_of(target, schedule)
    report = subject_of(subject).check(parse_settings(settings), choice, ranks)
    data = {**report.to_dict(), "subject": subject, "target": choice.target.name, "settings": parse_settings(settings)}
    return Outcome(data, (str(report),), report.ok)


@click.command()
@click.option("--ranks", type=click.IntRange(1, 64), help="Devices that run the kernel at once, each with its `rank`.")
@subject_options
def check(
    subject: str,
    settings: tuple[str, ...],
    target: str | None,
    schedule: str | None,
    ranks: int | None,
    as_json: bool,
) -> None:
    """Run SUBJECT on the virtual GPU in all its scheduling modes, with race detection; exit 1 on any finding.

    The results of all modes are compared with each other and with the reference, where the subject has one.
    """
    finish(lambda: _outcome(subject, settings, target, schedule, ranks), as_json)
