"""How a command ends: one JSON object or tables on stdout, everything else on stderr, and the exit status.

Exit status: 0 what was asked holds, 1 it does not (an error beyond tolerance, a missing tool, a missed ratio),
2 the command could not be carried out.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright import knobs
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Outcome:
    """What a command found: ``data`` for ``--json``, ``view`` for people, and whether what it checks holds."""

    data: dict[str, Any]
    view: tuple[RenderableType, ...]
    passed: bool = True


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> RenderableType:
    """A table whose cells are shown as ``str`` does; columns of numbers align right."""
    from rich.table import Table

    shown = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        shown.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row))
    return shown


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Sends what anything below prints, C++ included, to stderr, so that stdout holds one object only."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def finish(command: Callable[[], Outcome], as_json: bool) -> None:
    """Runs ``command``, prints its outcome and exits with its status."""
    try:
        with stdout_to_stderr():
            outcome = command()
    except TilewrightError as error:
        if knobs.DEBUG.flag():
            raise
        if as_json:
            print(json.dumps({"error": {"kind": type(error).__name__, "message": str(error)}}))
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:  # a fault of the user's own code, or of ours: its traceback helps
        traceback.print_exc()
        if as_json:
            print(json.dumps({"error": {"kind": type(error).__name__, "message": str(error)}}))
        sys.exit(2)
    if as_json:
        print(json.dumps(outcome.data, default=str))
    else:
        show(outcome)
    sys.exit(0 if outcome.passed else 1)


def show(outcome: Outcome) -> None:
    """Prints the view: text as it is (code has no markup and is never wrapped), tables as wide as they need."""
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=160)
    for item in outcome.view:
        if isinstance(item, str):
            print(item)
        else:
            console.print(item)
