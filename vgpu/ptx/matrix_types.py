"""Element types of matrix instructions and which of them go together."""

from __future__ import annotations

# Numbers of the engine's enums ``Format`` and ``Accumulator`` (matrix_formats.h).
FORMATS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 3, "e5m2": 4, "s8": 5, "u8": 6, "s4": 7, "u4": 8}
ACCUMULATORS = {"f32": 0, "f16": 1, "s32": 2}
# Elements of k in a 16-byte step.
STEP = {"f16": 8, "bf16": 8, "tf32": 4, "e4m3": 16, "e5m2": 16, "s8": 16, "u8": 16, "s4": 32, "u4": 32}
_FAMILIES = (("f16",), ("bf16",), ("tf32",), ("e4m3", "e5m2"), ("s8", "u8"), ("s4", "u4"))


def accumulators_of(a: str, b: str) -> tuple[str, ...]:
    """The accumulator types that operands ``a`` and ``b`` may have; empty when they do not go together."""
    family = next((f for f in _FAMILIES if a in f), ())
    if b not in family:
        return ()
    if a in ("s8", "u8", "s4", "u4"):
        return ("s32",)
    return ("f32",) if a in ("bf16", "tf32") else ("f32", "f16")
