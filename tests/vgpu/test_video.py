"""Byte-wise and packing integer instructions against the PTX ISA (sections Video Instructions, cvt.pack, szext)."""

from __future__ import annotations

import numpy as np
import pytest


def words(seed, n=200):
    return np.random.default_rng(seed).integers(0, 2**32, n, dtype=np.uint32)


def signed_bytes(word):
    return [b - 256 if b > 127 else b for b in int(word).to_bytes(4, "little")]


def word(values):
    return sum((v & 0xFF) << 8 * k for k, v in enumerate(values))


def clamp(value, low, high):
    return min(max(value, low), high)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("vadd4", lambda x, y: x + y),
        ("vsub4", lambda x, y: x - y),
        ("vabsdiff4", lambda x, y: abs(x - y)),
        ("vmin4", min),
        ("vmax4", max),
    ],
)
def test_four_bytes_at_once(elementwise, name, function):
    a, b, zero = words(1), words(2), np.zeros(200, np.uint32)
    found = elementwise(f"{name}.s32.s32.s32.sat %y, %x0, %x1, %x2;", [a, b, zero], np.uint32)
    pairs = zip(a, b, strict=True)
    expected = [
        word(clamp(function(x, y), -128, 127) for x, y in zip(signed_bytes(p), signed_bytes(q), strict=True))
        for p, q in pairs
    ]
    assert found.tolist() == expected


def test_pack_saturates_both_sides(elementwise):
    a, b = words(3).view(np.int32), words(4).view(np.int32)
    a[:50] //= 2**17  # some that fit
    found = elementwise("cvt.pack.sat.s16.s32 %y, %x0, %x1;", [a, b], np.uint32)
    limit = [[clamp(int(v), -(2**15), 2**15 - 1) & 0xFFFF for v in side] for side in (a, b)]
    assert found.tolist() == [high << 16 | low for high, low in zip(*limit, strict=True)]


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_sign_extension_from_a_bit(elementwise, mode):
    a, n = words(5, 70), np.arange(70, dtype=np.uint32)
    found = elementwise(f"szext.{mode}.s32 %y, %x0, %x1;", [a.view(np.int32), n], np.int32)
    expected = []
    for value, size in zip(a, n, strict=True):
        bits = min(int(size), 32) if mode == "clamp" else int(size) & 31
        kept = int(value) & ((1 << bits) - 1)
        expected.append(kept - (1 << bits) if bits and kept >> (bits - 1) else kept)
    assert found.tolist() == expected
