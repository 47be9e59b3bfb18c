"""``--set name=value``: text to values, and names checked against those that a subject takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .errors import BadSetting, unknown

_WORDS: Mapping[str, object] = {"true": True, "false": False, "none": None}
Value = object


def value_of(text: str) -> Value:
    """A whole number, a float, ``true``, ``false``, ``none``, or the text itself (dtype names, activations)."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_settings(pairs: Iterable[str]) -> dict[str, Value]:
    """The settings of ``--set`` options, by name.

    Raises:
        BadSetting: an option that is not ``name=value``, or a name given twice.
    """
    settings: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name or not text:
            raise BadSetting(f"--set {pair!r} is not name=value", remedy="write for example --set m=512")
        if name in settings:
            raise BadSetting(f"--set {name} is given twice", remedy="give each name once")
        settings[name] = value_of(text)
    return settings


def check_names(settings: Iterable[str], known: Iterable[str]) -> None:
    """Refuses a name that is not in ``known``.

    Raises:
        UnknownName: such a name; the message lists the known ones.
    """
    known = tuple(known)
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)
