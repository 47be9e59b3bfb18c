"""Tiles whose memory the schedule chooses: ``alloc_tile`` and what tells such a tile from a placed one."""

from __future__ import annotations

from typing import Any

from ._tilelang import language

# TileLang's tracer takes a scope that begins so for a fragment; nothing lowers it, so a tile left open cannot slip by
OPEN_SCOPE = "local.fragment.open"


def alloc_tile(shape: Any, dtype: Any) -> Any:
    """Allocate a tile and leave open where it lives: shared memory or registers.

    The step ``place`` of a schedule decides; without one, use decides: an operand of a matrix product lives in shared
    memory, an accumulator and whatever is computed elementwise in a fragment.

    Args:
        shape: extents, whole numbers.
        dtype: element type, as for ``alloc_shared``.

    Returns:
        The buffer, for use like any other.
    """
    return language.alloc_fragment(shape, dtype, scope=OPEN_SCOPE)
