"""``tilewright ops``: the operators there are."""

from __future__ import annotations

from typing import Any

import click

from ..outcome import Outcome, finish, table


def _outcome() -> Outcome:
    from tilewright.ops import OPERATORS

    records: list[dict[str, Any]] = [
        {
            "name": one.name,
            "summary": one.summary,
            "schema": one.schema,
            "settings": dict(one.parameters),
            "targets": list(one.targets(one.values())),
            "differentiable": one.differentiable,
        }
        for one in OPERATORS.values()
    ]
    rows = [
        (
            one["name"],
            one["summary"],
            " ".join(f"{name}={value}" for name, value in one["settings"].items()),
            " ".join(one["targets"]),
            "yes" if one["differentiable"] else "no",
        )
        for one in records
    ]
    columns = ("operator", "computes", "settings of run and show, with defaults", "targets", "gradient")
    return Outcome({"operators": records}, (table("tilewright.ops", columns, rows),))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def ops(as_json: bool) -> None:
    """List the operators, what `--set` may change about a call, and the targets of the default dtype."""
    finish(_outcome, as_json)
