"""Every operator, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from . import (
    attention_record,
    gemm_record,
    glu_record,
    linear_record,
    losses_record,
    norm_record,
    rope_record,
    softmax_record,
)
from .errors import UnknownOperator
from .operator import Operator

_RECORDS = (
    gemm_record.RECORD,
    norm_record.RMS,
    norm_record.LAYER,
    softmax_record.RECORD,
    glu_record.SWIGLU,
    glu_record.GEGLU,
    attention_record.RECORD,
    attention_record.VARLEN,
    rope_record.RECORD,
    linear_record.RECORD,
    losses_record.CROSS_ENTROPY,
    losses_record.LINEAR_CROSS_ENTROPY,
    losses_record.TOKEN_LOGPROBS,
    losses_record.LINEAR_TOKEN_LOGPROBS,
)

OPERATORS: Mapping[str, Operator] = {record.name: record for record in _RECORDS}


def find_operator(name: str) -> Operator:
    """The record of an operator.

    Raises:
        UnknownOperator: there is none of this name; the message names close ones.
    """
    if name not in OPERATORS:
        close = difflib.get_close_matches(name, OPERATORS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UnknownOperator(f"no operator is called {name!r}", remedy=f"{hint}known: {', '.join(OPERATORS)}")
    return OPERATORS[name]
