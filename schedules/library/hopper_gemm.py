"""Recipes for one matrix product on Hopper."""

from __future__ import annotations

from tilewright.dsl import Grid, Operation, Program, bits

from ..primitives import CopyEngine
from ..schedule import Schedule
from .products import Product, product_of

CONSUMERS = 256  # threads of two warpgroups
STAGED_WIDTH = 128  # bytes of a swizzled row of the staged result


def gemm(
    program: Program,
    *,
    depth: int = 4,
    panel: int = 8,
    persistent: bool = True,
    blocks: int = 0,
    ping_pong: bool = False,
) -> Schedule:
    """The recipe: one warpgroup loads by TMA, two share each tile by rows and multiply together, or in turn.

    Made for tiles of 128 x 256 x 64 in two-byte types: 64 x 256 of the result a warpgroup, 196,608 bytes of slots. The
    result leaves through shared memory by TMA; tiles are visited in panels of ``panel`` rows for reuse in L2.
    A persistent block stores in pieces, since the next tile's loads fill its slots meanwhile; so do roles, whose slots
    stay their own.

    Args:
        program: a program with one matrix product, placed or open.
        depth: slots of A and B.
        panel: rows of tiles in a panel.
        persistent: ``blocks`` blocks that take tile after tile, instead of one block a tile.
        blocks: how many (0: one a multiprocessor).
        ping_pong: whether the two warpgroups multiply in turn, each with 240 registers a thread of its own.

    Raises:
        UnknownHandle: the program is no single product.
    """
    names = product_of(program)
    schedule = _base(names, depth)
    if names.store:
        pieces = _pieces(program, names) if persistent or ping_pong else 1
        schedule = _stored_by_tma(schedule, names, pieces)
    if len(_axes(program)) > 1:
        schedule = schedule.rasterize(panel)
    schedule = schedule.persistent(blocks) if persistent else schedule
    return schedule.specialize().ping_pong(names.loop, names.gemm, names.gemm) if ping_pong else schedule


def split_k(program: Program, parts: int, *, depth: int = 4) -> Schedule:
    """For few tiles and a long reduction: ``parts`` blocks a tile, their sums added in a second launch.

    Raises:
        UnknownHandle: the program is no single product.
    """
    names = product_of(program)
    return _base(names, depth).split_k(names.loop, parts)


def stream_k(program: Program, *, blocks: int = 0, depth: int = 4) -> Schedule:
    """For tiles that fill no whole number of waves: each of ``blocks`` blocks (0: one a multiprocessor) has an equal
    share of all iterations.

    Raises:
        UnknownHandle: the program is no single product.
    """
    names = product_of(program)
    return _base(names, depth).stream_k(names.loop, blocks)


def _base(names: Product, depth: int) -> Schedule:
    by_rows = Schedule().threads(CONSUMERS).partition(names.gemm, "full_row")
    loads = by_rows.copy_engine(names.loads[0], "tma").copy_engine(names.loads[1], "tma")
    return loads.pipeline(names.loop, depth)


def _stored_by_tma(schedule: Schedule, names: Product, parts: int) -> Schedule:
    tile = f"{names.accumulator}_staged"
    staged = schedule.stage(names.store, parts=parts).swizzle(tile, STAGED_WIDTH)
    stores = [f"copy {tile}->{names.output}" + (f"#{part}" if part > 1 else "") for part in range(1, parts + 1)]
    return staged.then(*(CopyEngine(store, "tma") for store in stores))


def _pieces(program: Program, names: Product) -> int:
    """Pieces of the result that are one swizzled row wide: slots of the next tile are in use while it is stored."""
    store = program.outline().find(names.store).detail
    assert isinstance(store, Operation)
    columns, width = store.regions[1].extents[-1], STAGED_WIDTH * 8 // bits(store.regions[1].dtype)
    return max(1, columns // width) if isinstance(columns, int) else 1


def _axes(program: Program) -> tuple[object, ...]:
    detail = program.outline().grids[0].detail
    return detail.axes if isinstance(detail, Grid) else ()
