"""Finds the plan of an opcode spelling; importing this registers every family's decoder."""

from __future__ import annotations

import re

from ..errors import UnsupportedInstruction
from . import (
    decode_alu as _alu,
)
from . import (
    decode_atomic as _atomic,
)
from . import (
    decode_bulk as _bulk,
)
from . import (
    decode_cache as _cache,
)
from . import (
    decode_compare as _compare,
)
from . import (
    decode_control as _control,
)
from . import (
    decode_cp_async as _cp_async,
)
from . import (
    decode_cvt as _cvt,
)
from . import (
    decode_fence as _fence,
)
from . import (
    decode_float as _float,
)
from . import (
    decode_ldmatrix as _ldmatrix,
)
from . import (
    decode_mbarrier as _mbarrier,
)
from . import (
    decode_memory as _memory,
)
from . import (
    decode_mma as _mma,
)
from . import (
    decode_move as _move,
)
from . import (
    decode_tensormap as _tensormap,
)
from . import (
    decode_video as _video,
)
from . import (
    decode_warp as _warp,
)
from . import (
    decode_wgmma as _wgmma,
)
from . import (
    decode_wmma as _wmma,
)
from .plan import DECODERS, Opcode, Plan

FAMILIES = (
    _alu, _atomic, _bulk, _cache, _compare, _control, _cp_async, _cvt, _fence, _float, _ldmatrix, _mbarrier, _memory,
    _mma, _move, _tensormap, _video, _warp, _wgmma, _wmma,
)  # fmt: skip

_SELECTED = re.compile(r"\.[bh][0-7]{1,4}$")
_TENSOR = re.compile(r"\[[^,]*,\s*\{([^}]*)\}")
_plans: dict[tuple[str, tuple[str, ...]], Plan] = {}


def _selected(text: str) -> str:
    """``s`` with the sign of a register and the bytes or halves that are picked from it: ``s-.h0``."""
    picked = _SELECTED.search(text)
    return f"s{'-' * (text[:2] == '-%')}{picked.group() if picked else ''}"


def shape_of(operands: list[str]) -> tuple[str, ...]:
    """The shape of every operand: ``s`` scalar, ``m`` memory, ``v4`` vector, ``t2`` tensor map, ``c`` clock.

    A clock is ``ch`` for its upper half, ``c64`` for all 64 bits.

    A scalar may be ``s|`` (a pair), ``s-`` (negated), ``s.b0`` (with a selector of the video instructions).
    """
    out = []
    for text in operands:
        first = text[0]
        if first == "[":
            tensor = _TENSOR.match(text) if "{" in text else None
            out.append(f"t{tensor.group(1).count(',') + 1}" if tensor else "m")
        elif first == "{":
            out.append(f"v{text.count(',') + 1}")
        elif text.startswith(("%clock", "%globaltimer")):
            out.append("ch" if text.endswith("_hi") else "c64" if text in ("%clock64", "%globaltimer") else "c")
        elif "|" in text:
            out.append("s|")
        elif "." in text or first == "-":
            out.append(_selected(text))
        else:
            out.append("s")
    return tuple(out)


def plan_for(opcode: str, shape: tuple[str, ...]) -> Plan:
    """The plan of a spelling with operands of this shape.

    Raises:
        UnsupportedInstruction: no family decodes the opcode, or a modifier is not run.
    """
    plan = _plans.get((opcode, shape))
    if plan is None:
        op = Opcode(opcode)
        decode = DECODERS.get(op.root)
        if decode is None:
            raise UnsupportedInstruction(f"{opcode} is not run by the virtual GPU")
        try:
            plan = _plans[opcode, shape] = decode(op, shape)
        except IndexError:  # decoders look at the operands they need
            raise op.refuse(f"has {len(shape)} operands") from None
    return plan
