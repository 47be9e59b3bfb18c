"""Schedules as JSON: a version, and each step as its name with its options."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from .errors import BadScheduleText
from .primitive import Primitive, options_of
from .primitives import PRIMITIVES

VERSION = 1
_MARK = "tilewright_schedule"
_KINDS: Mapping[str, Callable[..., Any]] = {kind.name: kind for kind in PRIMITIVES}
_TYPES: Mapping[str, type | tuple[type, ...]] = {"int": int, "str": str, "bool": bool, "float": (int, float)}


def to_json(steps: Iterable[Primitive]) -> str:
    """The JSON text of steps in order."""
    return json.dumps({_MARK: VERSION, "steps": [{"name": step.name, **options_of(step)} for step in steps]}, indent=1)


def from_json(source: str) -> tuple[Primitive, ...]:
    """The steps of a JSON text.

    Raises:
        BadScheduleText: the text is no schedule of this version.
    """
    try:
        record = json.loads(source)
    except (ValueError, TypeError) as error:
        raise BadScheduleText(
            f"this text is no schedule: {error}", remedy="write one with Schedule.to_json()"
        ) from None
    if not isinstance(record, dict) or _MARK not in record or not isinstance(record.get("steps"), list):
        raise BadScheduleText(
            f"this JSON is no schedule: it needs {_MARK!r} and a list 'steps'",
            remedy="write one with Schedule.to_json()",
        )
    if record[_MARK] != VERSION:
        raise BadScheduleText(
            f"schedule of version {record[_MARK]!r}, this package reads version {VERSION}",
            remedy="write it anew with this package",
        )
    return tuple(_step(number, entry) for number, entry in enumerate(record["steps"], 1))


def _step(number: int, entry: Any) -> Primitive:
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str) or name not in _KINDS:
        close = difflib.get_close_matches(str(name), _KINDS, n=1)
        raise BadScheduleText(
            f"step {number}: unknown primitive {name!r}",
            remedy=(f"did you mean {close[0]!r}? " if close else "") + f"known: {', '.join(_KINDS)}",
        )
    kind: Any = _KINDS[name]
    known = {field.name: field for field in fields(kind)}
    given = {key: value for key, value in entry.items() if key != "name"}
    missing = [key for key, field in known.items() if key not in given and field.default is MISSING]
    unknown = [key for key in given if key not in known]
    if missing or unknown:
        wrong = f"unknown option {unknown[0]!r}" if unknown else f"option {missing[0]!r} is missing"
        raise BadScheduleText(f"step {number}, {name}: {wrong}", remedy=f"its options are {', '.join(known) or 'none'}")
    for key, value in given.items():
        _check_type(number, name, known[key], value)
    step: Primitive = kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
    return step


def _check_type(number: int, name: str, field: Field[Any], value: Any) -> None:
    kind = str(field.type)
    element = kind.removeprefix("tuple[").removesuffix(", ...]")
    parts = [value] if element == kind else value
    if not isinstance(parts, list) or not all(_is_a(part, _TYPES[element]) for part in parts):
        raise BadScheduleText(
            f"step {number}, {name}: option {field.name!r} must be {field.type}", values={field.name: repr(value)}
        )


def _is_a(value: Any, expected: type | tuple[type, ...]) -> bool:
    return isinstance(value, expected) and (not isinstance(value, bool) or expected is bool)
