"""Scalar video instructions against the pseudo code of the PTX ISA, in Python integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

COUNT = 96
PARTS = {"": (0, 32), ".b0": (0, 8), ".b1": (8, 8), ".b2": (16, 8), ".b3": (24, 8), ".h0": (0, 16), ".h1": (16, 16)}


def words(seed):
    out = np.random.default_rng(seed).integers(0, 2**32, COUNT, dtype=np.uint32)
    out[:8] = 0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x8000, 0xFF80, 0x7F
    return np.roll(out, seed)


A, B, C = words(1), words(2), words(3)


def signed(kind):
    return kind == "s32"


def extend(value, bits, is_signed):
    value &= (1 << bits) - 1
    return value - (1 << bits) if is_signed and value >> (bits - 1) else value


def part(word, selector, kind):
    at, bits = PARTS[selector]
    return extend(int(word) >> at, bits, signed(kind))


def clamp(value, bits, is_signed):
    low = -(1 << (bits - 1)) if is_signed else 0
    return min(max(value, low), low + (1 << bits) - 1)


def finish(value, c, to, selector, saturates, second):
    """Saturation for the part, then a secondary operation with c or a merge into it."""
    at, bits = PARTS[selector]
    if saturates:
        value = clamp(value, bits, signed(to))
    if selector:
        mask = ((1 << bits) - 1) << at
        return (int(c) & ~mask | value << at & mask) & 0xFFFFFFFF
    other = extend(int(c), 32, signed(to))
    value = {"": value, "add": value + other, "min": min(value, other), "max": max(value, other)}[second]
    return value & 0xFFFFFFFF


def opcode_of(*pieces):
    return ".".join(p for p in pieces if p)


def check(elementwise, text, expected):
    found = elementwise(text, [A, B, C], np.uint32)
    assert found.tolist() == expected, text


OPERATIONS = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vabsdiff": lambda x, y: abs(x - y),
    "vmin": min,
    "vmax": max,
}
KINDS = ("s32", "u32")
# Parts of d, a and b, and the secondary operation.
FORMS = [
    ("", "", "", ""), ("", ".b1", ".h1", "add"), ("", ".h0", ".b3", "min"), ("", ".b2", "", "max"),
    (".b2", "", ".b0", ""), (".h1", ".h1", ".h0", ""), (".b0", ".b3", ".b1", ""), (".h0", "", "", ""),
]  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("sat", ["", "sat"])
def test_arithmetic(elementwise, name, sat):
    for (to, first, other), (d, a, b, second) in itertools.product(itertools.product(KINDS, repeat=3), FORMS):
        if second in ("min", "max") and not sat:
            continue  # the ISA does not say how wide the value is that c is compared with
        third = ", %x2" if d or second else ""
        text = f"{opcode_of(name, to, first, other, sat, second)} %y{d}, %x0{a}, %x1{b}{third};"
        values = (OPERATIONS[name](part(x, a, first), part(y, b, other)) for x, y in zip(A, B, strict=True))
        check(elementwise, text, [finish(v, c, to, d, sat, second) for v, c in zip(values, C, strict=True)])


@pytest.mark.parametrize("name", ["vshl", "vshr"])
@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_shifts(elementwise, name, mode):
    for to, first, sat, (d, a, b, second) in itertools.product(KINDS, KINDS, ("", "sat"), FORMS):
        if second in ("min", "max") and not sat:
            continue
        third = ", %x2" if d or second else ""
        text = f"{opcode_of(name, to, first, 'u32', sat, mode, second)} %y{d}, %x0{a}, %x1{b}{third};"
        expected = []
        for x, y, c in zip(A, B, C, strict=True):
            amount = part(y, b, "u32")
            amount = min(amount, 32) if mode == "clamp" else amount & 31
            value = part(x, a, first)
            value = value << amount if name == "vshl" else value >> amount
            expected.append(finish(value, c, to, d, sat, second))
        check(elementwise, text, expected)


COMPARISONS = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_comparisons(elementwise, comparison):
    for first, other, (d, a, b, second) in itertools.product(KINDS, KINDS, FORMS):
        third = ", %x2" if d or second else ""
        text = f"{opcode_of('vset', first, other, comparison, second)} %y{d}, %x0{a}, %x1{b}{third};"
        pairs = ((part(x, a, first), part(y, b, other)) for x, y in zip(A, B, strict=True))
        values = (int(COMPARISONS[comparison](x, y)) for x, y in pairs)
        check(elementwise, text, [finish(v, c, "u32", d, "", second) for v, c in zip(values, C, strict=True)])


# Signs of a, b and c, and .po.
NEGATIONS = [("", "", "", ""), ("-", "", "", ""), ("", "-", "", ""), ("", "", "-", ""), ("", "", "", "po")]


@pytest.mark.parametrize("scale", ["", "shr7", "shr15"])
@pytest.mark.parametrize("sat", ["", "sat"])
def test_multiplication_and_addition(elementwise, scale, sat):
    kinds = itertools.product(KINDS, repeat=2)
    for (first, other), (minus_a, minus_b, minus_c, po) in itertools.product(kinds, NEGATIONS):
        final = signed(first) or signed(other) or bool(minus_a or minus_b or minus_c)
        to = "s32" if final else "u32"
        for a, b in (("", ""), (".b1", ".h1"), (".h0", ".b3")):
            text = f"{opcode_of('vmad', to, first, other, po, sat, scale)}"
            text += f" %y, {minus_a}%x0{a}, {minus_b}%x1{b}, {minus_c}%x2;"
            expected = []
            for x, y, c in zip(A, B, C, strict=True):
                product = part(x, a, first) * part(y, b, other)
                addend = extend(int(c), 32, final)
                value = (-product if minus_a or minus_b else product) + (-addend if minus_c else addend) + bool(po)
                value >>= int(scale[3:] or 0)
                expected.append((clamp(value, 32, final) if sat else value) & 0xFFFFFFFF)
            check(elementwise, text, expected)
