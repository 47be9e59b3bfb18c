"""Decoders of what only caches see, without an effect here: prefetches, priorities, ``discard``, ``createpolicy``."""

from __future__ import annotations

from .forms import Forms
from .plan import Opcode, Plan, decoder

_PREFETCH = Forms(
    "{.global|.local}.(L1|L2)",
    "{.global}.(L2::evict_last|L2::evict_normal)",
    "{.const|.param}.tensormap",
)
_PREFETCHU = Forms(".L1")
_PRIORITY = Forms("{.global}.L2::evict_normal")
_DISCARD = Forms("{.global}.L2")
_PRIMARY = "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"
_POLICY = Forms(
    ".fractional.(<first>){.(<second>)}.b64",
    ".range{.global}.(<first>){.(<second>)}.b64",
    ".cvt.L2.b64",
    first=_PRIMARY,
    second="L2::evict_first|L2::evict_unchanged",
)
_LINE = 128  # bytes, the only size that applypriority and discard take


@decoder("prefetch")
def decode_prefetch(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Brings memory near."""
    _PREFETCH.take(op)
    return Plan("nop", ("addr",))


@decoder("prefetchu")
def decode_prefetchu(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Brings memory into the uniform cache."""
    _PREFETCHU.take(op)
    return Plan("nop", ("addr",))


@decoder("applypriority", "discard")
def decode_line(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Of a line of 128 bytes; ``discard`` leaves the bytes as they are, which its rules allow."""
    (_PRIORITY if op.root == "applypriority" else _DISCARD).take(op)
    return Plan("nop", ("addr", f"imm={_LINE}"))


@decoder("createpolicy")
def decode_createpolicy(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """A cache policy; the engine's is 0, and who takes one ignores it."""
    words = _POLICY.take(op)
    counts = {"fractional": (1, 2), "range": (4, 4), "cvt": (2, 2)}
    low, high = next(counts[w] for w in counts if w in words)
    if not low <= len(shape) <= high:
        raise op.refuse(f"has {len(shape)} operands")
    return Plan("mov.64", ("w:b64",), unread=len(shape) - 1, zero=True)
