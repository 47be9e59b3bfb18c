"""The entry point of ``tilewright`` and ``python -m tilewright``."""

from __future__ import annotations

from importlib.metadata import version

import click

from .commands.bench import bench
from .commands.check import check
from .commands.doctor import doctor
from .commands.ops import ops
from .commands.run import run
from .commands.show import show

COMMANDS = (doctor, ops, run, show, check, bench)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("tilewright"), prog_name="tilewright")
def main() -> None:
    """Compile, run and read tile-level GPU kernels, with or without a GPU."""


for _command in COMMANDS:
    main.add_command(_command)
