"""Recipes for attention forward on Hopper."""

from __future__ import annotations

from tilewright.dsl import Program

from ..errors import IllegalValue
from ..schedule import Schedule
from .attentions import attention_of

_REGISTERS = {1: (24, 240), 2: (24, 240), 3: (32, 160)}  # of a thread of the producer and of a consumer
_ROWS = 64  # of a warpgroup's matrix instruction


def attention(
    program: Program, *, order: str = "scores_first", depth: int = 2, ping_pong: bool = True, persistent: int = 0
) -> Schedule:
    """One warpgroup loads keys and values, each of the others has 64 rows of queries; their products go in turn.

    The scores of the next block of keys are computed beside the softmax of this one, in one of the two orders published
    for FlashAttention-3 (its code, and the figure of its two-stage pipeline)::

        scores_first:   S(j+1)  rescale(j)  P V(j)  softmax(j+1)
        values_first:   softmax(j)  rescale(j)  P V(j)  S(j+1)

    Args:
        program: attention with one loop over keys, placed or open; tiles of 64, 128 or 192 queries.
        order: ``"scores_first"`` or ``"values_first"``.
        depth: slots of keys and of values.
        ping_pong: whether consumers take turns with their products.
        persistent: blocks that take tile after tile; 0 for a block a tile.

    Raises:
        UnknownHandle: the program is no attention.
        IllegalValue: another order, or a tile of other than 64, 128 or 192 queries.
    """
    names = attention_of(program)
    if order not in ("scores_first", "values_first"):
        raise IllegalValue("attention: order must be 'scores_first' or 'values_first'", values={"order": repr(order)})
    consumers = names.rows // _ROWS
    if consumers not in _REGISTERS or names.rows % _ROWS:
        raise IllegalValue(
            "attention: a tile must have 64, 128 or 192 queries, 64 for each consumer",
            values={"queries": names.rows},
            remedy="bind the program with another tile",
        )
    behind = (*names.rescale, names.values)
    if order == "scores_first":
        run = (names.scores, *behind, *names.softmax)
        stages = (0, *(1 for _ in behind), *(0 for _ in names.softmax))
        turn = (names.scores, names.values)
    else:
        run = (*names.softmax, *behind, names.scores)
        stages = (*(1 for _ in run[:-1]), 0)
        turn = (names.values, names.scores)
    schedule = Schedule().persistent(persistent) if persistent else Schedule()
    schedule = schedule.partition(names.scores, "full_row").partition(names.values, "full_row")
    schedule = schedule.pipeline(names.loop, depth).order(names.loop, run, stages)
    schedule = schedule.specialize(consumers, *_REGISTERS[consumers])
    return schedule.ping_pong(names.loop, *turn) if ping_pong and consumers > 1 else schedule
