"""The mutants that are argued to be equivalent to their kernel."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).with_name("equivalent.toml")


def equivalents() -> Mapping[str, str]:
    """The name of each equivalent mutant and the argument for it.

    Raises:
        ValueError: a mutant is named twice, or without an argument.
    """
    found: dict[str, str] = {}
    for group in tomllib.loads(FILE.read_text())["equivalent"]:
        reason = group["reason"].strip()
        for kind, ordinals in group["mutants"].items():
            for ordinal in ordinals:
                name = f"{kind} {ordinal}"
                if name in found or len(reason.split()) < 10:
                    raise ValueError(f"{name} is named twice, or without an argument")
                found[name] = reason
    return found
