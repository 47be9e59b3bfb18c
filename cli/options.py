"""The options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

_OPTIONS = (
    click.argument("subject"),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A size, dtype or other setting."),
    click.option("--target", metavar="NAME", help="sm_80, sm_89 or sm_90a; default: the GPU, else sm_90a."),
    click.option("--schedule", metavar="FILE", help="A schedule as JSON; default: the subject's own."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout."),
)


def subject_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """SUBJECT, ``--set``, ``--target``, ``--schedule`` and ``--json``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
