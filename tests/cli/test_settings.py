"""``--set name=value``."""

from __future__ import annotations

import pytest

from tilewright.cli.errors import BadSetting, UnknownName
from tilewright.cli.settings import check_names, parse_settings, value_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512", 512),
        ("-3", -3),
        ("1e-5", 1e-5),
        ("0.5", 0.5),
        ("true", True),
        ("False", False),
        ("none", None),
        ("float16", "float16"),
    ],
)
def test_values(text: str, value: object) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


def test_settings_by_name() -> None:
    assert parse_settings(["m=4", "dtype=bfloat16"]) == {"m": 4, "dtype": "bfloat16"}


def test_an_unknown_name_lists_the_candidates() -> None:
    with pytest.raises(UnknownName, match=r"there is no setting 'dtyp'\n.*did you mean 'dtype'\? known: dtype, m, n"):
        check_names(["dtyp"], ["m", "n", "dtype"])


@pytest.mark.parametrize("pair", ["m", "=4", "m="])
def test_not_name_equals_value(pair: str) -> None:
    with pytest.raises(BadSetting, match=f"--set '{pair}' is not name=value"):
        parse_settings([pair])


def test_a_name_given_twice() -> None:
    with pytest.raises(BadSetting, match="--set m is given twice"):
        parse_settings(["m=1", "m=2"])
