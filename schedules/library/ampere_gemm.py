"""Recipes for one matrix product on Ampere."""

from __future__ import annotations

from tilewright.dsl import Grid, Program

from ..schedule import Schedule
from .products import Product, product_of


def gemm(program: Program, *, threads: int = 128, depth: int = 3, panel: int = 8, staged: bool = True) -> Schedule:
    """Slots filled by ``cp.async``, tiles visited in panels, the result stored through shared memory in whole lines.

    Made for tiles of 128 x 128 x 32 in two-byte types and 128 threads: 64 x 64 of the result a warp.

    Args:
        program: a program with one matrix product, placed or open.
        threads: of a block.
        depth: slots of A and B.
        panel: rows of tiles in a panel.
        staged: store through shared memory.

    Raises:
        UnknownHandle: the program is no single product.
    """
    names = product_of(program)
    schedule = _base(names, threads, depth)
    detail = program.outline().grids[0].detail
    if isinstance(detail, Grid) and len(detail.axes) > 1:
        schedule = schedule.rasterize(panel)
    return schedule.stage(names.store) if staged and names.store else schedule


def split_k(program: Program, parts: int, *, threads: int = 128, depth: int = 3) -> Schedule:
    """For few tiles and a long reduction: ``parts`` blocks a tile, their sums added in a second launch.

    Raises:
        UnknownHandle: the program is no single product.
    """
    names = product_of(program)
    return _base(names, threads, depth).split_k(names.loop, parts)


def stream_k(program: Program, *, blocks: int = 0, threads: int = 128, depth: int = 3) -> Schedule:
    """For tiles that fill no whole number of waves: each of ``blocks`` blocks (0: one a multiprocessor) has an equal
    share of all iterations.

    Raises:
        UnknownHandle: the program is no single product.
    """
    names = product_of(program)
    return _base(names, threads, depth).stream_k(names.loop, blocks)


def _base(names: Product, threads: int, depth: int) -> Schedule:
    return Schedule().threads(threads).pipeline(names.loop, depth)
