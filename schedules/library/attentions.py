"""The handles of a program that is attention forward, read from its statements; what the recipes for it start from."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dsl import Operation, Program, gemm_of

from ..dependence import Statement, needed_by, statements_of
from ..errors import UnknownHandle
from ..placement import place_open


@dataclass(frozen=True)
class Attention:
    """The names of a loop over keys: the products Q K^T and P V, and the statements around them, in program order.

    ``rescale`` are the statements that change the sum of P V before the product adds to it; ``softmax`` is the rest.
    ``rows`` is the number of queries of a tile.
    """

    loop: str
    scores: str
    values: str
    rescale: tuple[str, ...]
    softmax: tuple[str, ...]
    rows: int


def attention_of(program: Program) -> Attention:
    """The attention that a program computes.

    Raises:
        UnknownHandle: no loop has two products of which the second needs the first.
    """
    program = place_open(program)
    for loop in program.outline().loops:
        statements = statements_of(loop)
        gemms = [statement for statement in statements if _is_gemm(statement)]
        if len(gemms) == 2 and gemms[0].label in needed_by(statements, gemms[1].label):
            return _named(loop.label, statements, gemms[0], gemms[1])
    raise UnknownHandle(
        f"{program.name} has no loop of two matrix products, the second made of the first",
        span=program.outline().grids[0].span if program.outline().grids else None,
        remedy="this recipe is for attention; schedule another program step by step",
    )


def _named(loop: str, statements: tuple[Statement, ...], scores: Statement, values: Statement) -> Attention:
    computing = [s for s in statements if not s.loads and s not in (scores, values)]
    rescale = tuple(s.label for s in computing if s.writes & values.writes)
    softmax = tuple(s.label for s in computing if s.label not in rescale)
    assert isinstance(scores.entry.detail, Operation)
    rows = gemm_of(scores.entry.detail).m
    return Attention(loop, scores.label, values.label, rescale, softmax, rows)


def _is_gemm(statement: Statement) -> bool:
    detail = statement.entry.detail
    return isinstance(detail, Operation) and detail.name == "gemm"
