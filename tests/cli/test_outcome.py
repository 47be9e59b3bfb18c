"""How a command ends."""

from __future__ import annotations

import json
import os

import pytest

from tilewright.cli.outcome import Outcome, finish, table
from tilewright.errors import SourceSpan, TilewrightError


def ended(outcome: object, as_json: bool) -> int:
    def command() -> Outcome:
        os.write(1, b"noise from below\n")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with pytest.raises(SystemExit) as exit_:
        finish(command, as_json)
    return exit_.value.code


@pytest.mark.parametrize(("passed", "status"), [(True, 0), (False, 1)])
def test_json_is_one_object_and_noise_goes_to_stderr(
    capfd: pytest.CaptureFixture[str], passed: bool, status: int
) -> None:
    assert ended(Outcome({"a": 1}, ("text",), passed), True) == status
    out, err = capfd.readouterr()
    assert json.loads(out) == {"a": 1}
    assert err == "noise from below\n"


def test_the_view_shows_text_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    code = "x[bold] = 1; " * 30
    assert ended(Outcome({}, (code, table("t", ("a", "b"), [("x", 0.00012345)]))), False) == 0
    out = capfd.readouterr().out
    assert code in out
    assert "0.000123" in out


def test_an_error_of_ours_is_a_message(capfd: pytest.CaptureFixture[str]) -> None:
    error = TilewrightError("a is wrong", span=SourceSpan("k.py", 3), remedy="mend it")
    assert ended(error, True) == 2
    out, err = capfd.readouterr()
    message = "a is wrong\n --> k.py:3\n  fix: mend it"
    assert json.loads(out) == {"error": {"kind": "TilewrightError", "message": message}}
    assert "Traceback" not in err
    assert message in err


def test_debug_keeps_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")

    def command() -> Outcome:
        raise TilewrightError("a is wrong")

    with pytest.raises(TilewrightError, match="a is wrong"):
        finish(command, False)
