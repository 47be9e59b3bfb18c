"""``tilewright run``: compile, run, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..options import subject_options
from ..outcome import Outcome, finish, table
from ..settings import parse_settings
from ..subject import choice_of, subject_of
from ..trial import Trial

if TYPE_CHECKING:
    from rich.console import RenderableType


def _outcome(subject: str, settings: tuple[str, ...], target: str | None, schedule: str | None) -> Outcome:
    trial = subject_of(subject).trial(parse_settings(settings), choice_of(target, schedule))
    return Outcome({**trial.to_dict(), "settings": parse_settings(settings)}, _view(trial), trial.passed)


def _view(trial: Trial) -> tuple[RenderableType, ...]:
    found = trial.comparison
    rows: list[tuple[str, object]] = [
        ("kernel", ", ".join(trial.kernels)),
        ("target", trial.kernel.target.name),
        ("device", trial.device),
        *((name, text) for name, text in trial.tensors.items()),
        ("compile", f"{trial.compile_ms:.1f} ms" + (" (cache hit)" if trial.cached else "")),
        ("run", f"{trial.run_ms:.1f} ms"),
        ("instructions", "not counted on a GPU" if trial.instructions is None else f"{trial.instructions:,}"),
    ]
    if found is None:
        rows.append(("reference", "none: the file defines no function 'reference', so nothing was compared"))
    else:
        rows += [
            ("error", f"{found.error:.3g} against float64; largest value {found.largest:.3g}"),
            ("torch's error", f"{found.torch_error:.3g} against float64"),
            ("tolerance", f"{found.tolerance:.3g}: " + ("within" if found.within else "EXCEEDED")),
        ]
    return (table(trial.subject, ("", ""), rows), *trial.findings)


@click.command()
@subject_options
def run(subject: str, settings: tuple[str, ...], target: str | None, schedule: str | None, as_json: bool) -> None:
    """Compile SUBJECT (an operator or path.py:factory), run it, and compare it with its reference in float64.

    Runs on a GPU if there is one, else on the virtual GPU. Exit 1 if the error is more than twice torch's own.
    """
    finish(lambda: _outcome(subject, settings, target, schedule), as_json)
