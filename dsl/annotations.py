"""Which annotations a program may carry, and the exact TIR type of each value.

TileLang checks almost none of this: an unknown key is ignored, and a ``num_stages`` that is not an ``IntImm`` kills the
process. Every annotation therefore passes through ``typed``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.errors import SourceSpan

from ._tilelang import tirx, tvm
from .errors import AnnotationError

Converter = Callable[[Any], Any]


def _integer(low: int, high: int) -> Converter:
    def convert(value: Any) -> Any:
        plain = value.value if isinstance(value, tirx.IntImm) else value
        if isinstance(plain, bool) or not isinstance(plain, int):
            raise TypeError("a whole number")
        if not low <= plain <= high:
            raise ValueError(f"between {low} and {high}")
        return tirx.IntImm("int32", plain)

    return convert


def _flag(value: Any) -> Any:
    plain = bool(value.value) if isinstance(value, tirx.IntImm) else value
    if not isinstance(plain, bool):
        raise TypeError("True or False")
    return tirx.const(plain, "bool")


def _word(*choices: str) -> Converter:
    def convert(value: Any) -> Any:
        plain = value.value if isinstance(value, tirx.StringImm) else value
        if not isinstance(plain, str):
            raise TypeError("a text")
        if choices and plain not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return tirx.StringImm(str(plain))

    return convert


def _integers(length: int | None = None, low: int = 0) -> Converter:
    def convert(value: Any) -> Any:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError("a list of whole numbers")
        if length is not None and len(value) != length:
            raise ValueError(f"{length} whole numbers")
        one = _integer(low, 2**31 - 1)
        return tvm.runtime.convert([one(element) for element in value])

    return convert


def _object(value: Any) -> Any:
    if not isinstance(value, tvm.runtime.Object) and not isinstance(value, (Mapping, Sequence)):
        raise TypeError("a TIR object")
    return value


_POSITIVE = _integer(1, 2**31 - 1)
_COUNT = _integer(0, 2**31 - 1)

LOOP: Mapping[str, Converter] = {
    "num_stages": _integer(1, 64),
    "tl_pipeline_order": _integers(),
    "tl_pipeline_stage": _integers(),
    "tl_pipelined_num_stages": _POSITIVE,
    "software_pipeline_order": _integers(),
    "software_pipeline_stage": _integers(),
    "software_pipeline_async_stages": _integers(),
    "software_pipeline_async_producers": _integers(),
    "software_pipeline_async_producer_groups": _integers(low=-1),
    "software_pipeline_tma_copies": _integers(),
    "coalesced_width": _POSITIVE,
    "parallel_loop_layout": _object,
    "parallel_prefer_async": _flag,
    "pragma_unroll_factor": _POSITIVE,
    "pragma_unroll_explicit": _flag,
    "tl.ws_op_id": _word(),
}
BLOCK: Mapping[str, Converter] = {
    "tl.launch_threads": _integers(3, low=1),
    "cluster_dims": _integers(3, low=1),
    "layout_map": _object,
    "tl.non_restrict_params": _object,
    "tilewright.added": _word(),
    "tilewright.panels": _word(),
    "l2_hit_ratio_map": _object,
    "barrier_init": _object,
    "tl.ws_schedule": _object,
}
CALL: Mapping[str, Converter] = {
    "disable_tma": _flag,
    "prefer_instruction": _word("tma", "cp_async", "sync"),
    "eviction_policy": _integer(0, 2),
    "coalesced_width": _POSITIVE,
    "parallel_loop_layout": _object,
    "wg_wait": _integer(-1, 7),
    "tl.ws_op_id": _word(),
}
PER_STATEMENT = (
    "tl_pipeline_order",
    "tl_pipeline_stage",
    "software_pipeline_order",
    "software_pipeline_stage",
    "software_pipeline_async_producers",
    "software_pipeline_async_producer_groups",
    "software_pipeline_tma_copies",
)


def typed(keys: Mapping[str, Converter], key: str, value: Any, span: SourceSpan | None = None) -> Any:
    """The TIR object for an annotation.

    Args:
        keys: ``LOOP``, ``BLOCK`` or ``CALL``.
        key: the annotation's name.
        value: a Python value or a TIR constant.
        span: the statement that carries it.

    Raises:
        AnnotationError: an unknown key, or a value of another type or range.
    """
    if key not in keys:
        close = difflib.get_close_matches(key, keys, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise AnnotationError(f"unknown annotation {key!r}", span=span, remedy=f"{hint}known: {', '.join(keys)}")
    try:
        return keys[key](value)
    except (TypeError, ValueError) as wrong:
        seen = f"{value!r} ({type(value).__name__})"
        raise AnnotationError(f"annotation {key!r} must be {wrong}", span=span, values={key: seen}) from None
