"""Types and ranges of what :func:`~.launch.launch` is given, before anything looks inside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .errors import LaunchError
from .ptx import Module

_MAX_BLOCKS = 1 << 24
# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_LIMITS = {"grid": (2**31 - 1, 65_535, 65_535), "block": (1024, 1024, 64), "cluster": (16, 16, 16)}
_NUMBERS = {"dynamic_smem": (0, 2**31 - 1), "device": (0, 1023), "seed": (0, 2**64 - 1), "budget": (1, 2**63 - 1)}
_MAX_HOST_THREADS = 256


def whole(value: Any) -> bool:
    """Whether ``value`` is a whole number (and no truth value)."""
    return isinstance(value, int) and not isinstance(value, bool)


def extents(value: Any, name: str) -> list[int]:
    """Three extents of a grid, block or cluster.

    Raises:
        LaunchError: not 1 to 3 whole numbers, or beyond the limits of every architecture.
    """
    out = [value] if whole(value) else list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []
    if not 1 <= len(out) <= 3 or any(not whole(n) or n < 1 for n in out):
        raise LaunchError(f"{name} must be 1 to 3 positive whole numbers", values={name: value})
    out += [1] * (3 - len(out))
    if any(n > most for n, most in zip(out, _LIMITS[name], strict=True)):
        raise LaunchError(f"{name} is beyond its limits", values={name: value, "limits": _LIMITS[name]})
    return out


def _check_words(names: dict[str, Any], numbers: dict[str, Any]) -> None:
    for name, value in names.items():
        if not isinstance(value, str):
            raise LaunchError(f"{name} must be a string", values={name: value})
    for name, value in numbers.items():
        lo, hi = _NUMBERS[name]
        if not whole(value) or not lo <= value <= hi:
            raise LaunchError(f"{name} must be a whole number from {lo} to {hi}", values={name: value})


def check_settings(names: dict[str, Any], numbers: dict[str, Any], threads: Any) -> None:
    """Checks the kinds of the arguments that all grids share.

    Raises:
        LaunchError: names the argument and what it takes.
    """
    _check_words(names, numbers)
    if threads is not None and (not whole(threads) or not 1 <= threads <= _MAX_HOST_THREADS):
        raise LaunchError(f"threads must be 1 to {_MAX_HOST_THREADS}", values={"threads": threads})


def check_request(ptx: Any, names: dict[str, Any], numbers: dict[str, Any], lists: dict[str, Any]) -> None:
    """Checks the kinds of the arguments of one grid.

    Raises:
        LaunchError: names the argument and what it takes.
    """
    if not isinstance(ptx, str | Module):
        raise LaunchError("ptx must be text or a parsed module", values={"type": type(ptx).__name__})
    _check_words(names, numbers)
    for name, value in lists.items():
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise LaunchError(f"{name} must be a sequence", values={"type": type(value).__name__})


def check_blocks(grid: Sequence[int], cluster: Sequence[int]) -> None:
    """Checks the number of blocks of a grid and of a cluster.

    Raises:
        LaunchError: too many to run one after another on a CPU, or for a cluster.
    """
    blocks = grid[0] * grid[1] * grid[2]
    if blocks > _MAX_BLOCKS:
        raise LaunchError(f"the virtual GPU runs at most {_MAX_BLOCKS} blocks", values={"grid": tuple(grid)})
    if cluster[0] * cluster[1] * cluster[2] > 16:
        raise LaunchError("a cluster has at most 16 blocks", values={"cluster": tuple(cluster)})


def directive(directives: str, word: str) -> list[int] | None:
    """The three numbers behind ``word`` in the header of a kernel, None when it is not there.

    Raises:
        LaunchError: they are no numbers.
    """
    m = re.search(rf"\.{word}\b([^.]*)", directives)
    if m is None:
        return None
    pieces = [p.strip() for p in m.group(1).split(",")]
    if not 1 <= len(pieces) <= 3 or any(not re.fullmatch(r"\d{1,10}", p) for p in pieces):
        raise LaunchError(f".{word} of the kernel is malformed", values={"directive": m.group(0).strip()[:60]})
    return [*map(int, pieces), *[1] * (3 - len(pieces))]
