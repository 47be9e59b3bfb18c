"""``tilewright bench``: one benchmark, with the peer it is measured against."""

from __future__ import annotations

import click

from ..errors import unknown
from ..outcome import Outcome, finish, table


def _outcome(name: str) -> Outcome:
    from tilewright.benchmarks import benchmarks

    if name not in benchmarks:
        raise unknown("benchmark", name, benchmarks)
    rows = benchmarks[name].measure()
    shown = [
        (
            row.what,
            row.ours,
            row.peer,
            row.unit,
            row.peer_name,
            row.ratio,
            _aim(row.goal, row.limit),
            "yes" if row.met else "NO",
        )
        for row in rows
    ]
    columns = ("what", "ours", "peer", "unit", "peer is", "times faster", "aim", "met")
    note = benchmarks[name].note()
    passed = all(row.met for row in rows)
    data = {
        "benchmark": name,
        "question": benchmarks[name].question,
        "passed": passed,
        "note": note,
        "rows": [r.to_dict() for r in rows],
    }
    view = (table(benchmarks[name].question, columns, shown), *([note] if note else []))
    return Outcome(data, view, passed)


def _aim(goal: float | None, limit: float | None) -> str:
    aims = [f">= {goal:g}x"] if goal is not None else []
    aims += [f"<= {limit:g}"] if limit is not None else []
    return ", ".join(aims)


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def bench(name: str, as_json: bool) -> None:
    """Run benchmark NAME (compile, import, call, lower, vgpu): medians beside a peer; exit 1 if an aim is missed."""
    finish(lambda: _outcome(name), as_json)
