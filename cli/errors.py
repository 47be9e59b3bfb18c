"""What a command line can get wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from tilewright.errors import TilewrightError


class UnknownName(TilewrightError, ValueError):
    """A subject, setting, stage or benchmark that does not exist; the message lists those that do."""


class BadSetting(TilewrightError, ValueError):
    """A ``--set`` that is not ``name=value``, lacks a needed value, or holds one of the wrong kind."""


class BadFile(TilewrightError, ValueError):
    """A file named on the command line cannot be read, or does not hold what it should."""


def unknown(kind: str, name: str, candidates: Iterable[str]) -> UnknownName:
    """The error for a ``name`` that is none of ``candidates``, nearest first in its remedy."""
    known = sorted(candidates)
    near = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean {near[0]!r}? " if near else ""
    return UnknownName(f"there is no {kind} {name!r}", remedy=f"{remedy}known: {', '.join(known) or 'none'}")
