"""Shapes of copies: both sides agree once extents of one are left out."""

from __future__ import annotations

import math

from ..dtypes import bits
from ..errors import RaceError, ShapeMismatch
from ..operations import COPIES, Region, shape_text
from ._context import Launch, Placed


def check_copies(launch: Launch) -> None:
    """Source and destination of every copy cover the same extents.

    A side of extent one everywhere broadcasts; symbolic extents are left to run time.

    Raises:
        ShapeMismatch: the extents differ.
        RaceError: threads that would each write a part of one byte.
    """
    for placed, operation in launch.operations(*COPIES):
        if len(operation.regions) != 2:
            continue
        source, target = operation.regions
        _check_bytes(launch, placed, source, target)
        if _agree(source.tile, target.tile):
            continue
        raise ShapeMismatch(
            f"{placed.entry.label}: {shape_text(source.extents)} does not fit {shape_text(target.extents)}",
            span=placed.span, values={source.name: _shape(source), target.name: _shape(target)},
            remedy="copy regions of equal extents; a transposed copy is a T.Parallel loop or T.transpose",
        )  # fmt: skip


def _shape(region: Region) -> str:
    return shape_text(tuple(map(str, region.buffer.shape)))


def _agree(source: tuple[int | str, ...], target: tuple[int | str, ...]) -> bool:
    if not source or not target or len(source) != len(target):
        return not source or not target or any(isinstance(extent, str) for extent in (*source, *target))
    pairs = zip(source, target, strict=True)
    return all(left == right or isinstance(left, str) or isinstance(right, str) for left, right in pairs)


def _check_bytes(launch: Launch, placed: Placed, source: Region, target: Region) -> None:
    """Refuse a copy of elements below a byte that gives a thread less than a byte."""
    width = bits(target.dtype)
    elements = math.prod(extent if isinstance(extent, int) else 0 for extent in target.extents)
    threads = launch.threads
    if width >= 8 or source.dtype != target.dtype or not elements or threads is None or not launch.target.arch:
        return
    if elements * width < 8 * threads:
        raise RaceError(
            f"{placed.entry.label}: {elements} elements of {target.dtype} give {threads} threads less than a byte "
            "each, and two would write one byte",
            span=placed.span,
            remedy=f"use at most {elements * width // 8} threads, or copy the bytes as int8",
        )
