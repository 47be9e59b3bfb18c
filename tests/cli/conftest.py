"""Running the command line in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tilewright.cli.main import main


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """stdout, which must be one JSON object."""
        return json.loads(self.out)


@pytest.fixture
def tilewright(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """``tilewright(*arguments)`` as the shell would call it."""

    def call(*arguments: object) -> Ended:
        with pytest.raises(SystemExit) as exit_:
            main.main([str(argument) for argument in arguments], prog_name="tilewright")
        out, err = capfd.readouterr()
        return Ended(int(exit_.value.code or 0), out, err)

    return call
