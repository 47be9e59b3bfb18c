"""A recipe for attention forward on Ampere."""

from __future__ import annotations

from tilewright.dsl import Program

from ..schedule import Schedule
from .attentions import attention_of


def attention(program: Program, *, depth: int = 2, threads: int = 128, ahead: bool = False) -> Schedule:
    """Keys and values come a block ahead by ``cp.async``; each warp has rows of its own, as in FlashAttention-2.

    Args:
        program: attention with one loop over keys, placed or open.
        depth: slots of keys and of values.
        threads: of a block; each warp needs 16 rows of queries at least.
        ahead: whether the scores of the next block are computed before P V of this one.

    Raises:
        UnknownHandle: the program is no attention.
    """
    names = attention_of(program)
    schedule = Schedule().threads(threads).partition(names.scores, "full_row").partition(names.values, "full_row")
    schedule = schedule.pipeline(names.loop, depth)
    return schedule.overlap(names.loop, names.scores) if ahead else schedule
