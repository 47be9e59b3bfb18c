"""Accesses of threads to global tensors: which a statement makes, and how wide the code makes them."""

from __future__ import annotations

import re
from typing import Any

from tilewright.dsl import bits, tirx

from .primitive import Argument

_BASES = {"char": 8, "short": 16, "half": 16, "half_t": 16, "bfloat": 16, "bfloat16_t": 16, "int": 32, "float": 32}
_LONG = {"longlong": 64, "double": 64}


def global_buffers(stmt: Any) -> tuple[Any, ...]:
    """The global buffers that a statement reads or writes, once each, in order."""
    found: dict[str, Any] = {}

    def visit(node: Any) -> None:
        if isinstance(node, (tirx.BufferLoad, tirx.BufferStore)) and str(node.buffer.scope()) == "global":
            found.setdefault(str(node.buffer.name), node.buffer)

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return tuple(found.values())


def access_widths(cuda: str, tensor: Argument) -> frozenset[int]:
    """How many elements of ``tensor`` single accesses of the CUDA text take."""
    name = re.escape(tensor.name)
    element = bits(tensor.dtype)
    types = re.findall(rf"\*\((\w+)\*\)\({name} \+", cuda)
    wide = {width // element for kind in types if (width := _type_bits(kind))}
    return frozenset(wide | ({1} if re.search(rf"(?<![&\w]){name}\[", cuda) else set()))


def _type_bits(name: str) -> int:
    """Bits of a CUDA vector type such as ``uint4``; 0 for another."""
    match = re.fullmatch(r"u?(\w*?[a-z_](?:_t)?)(\d*)", name)
    if match is None:
        return 0
    return (_BASES | _LONG).get(match[1], 0) * int(match[2] or 1)
