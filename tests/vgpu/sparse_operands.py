"""Random sparse matrices: kept elements, metadata, and the lanes that hold it."""

import numpy as np
import torch

LANES = np.arange(32)
G, T = LANES // 4, LANES % 4
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4}
RANGES = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16)}
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def sample(rng, shape, kind):
    return rng.integers(*RANGES[kind], size=shape) if kind in RANGES else rng.integers(-8, 9, size=shape) / 4.0


def encode(values, kind):
    if kind in RANGES:
        return values.astype(np.int64) & ((1 << BITS[kind]) - 1)
    if kind == "tf32":
        return values.astype(np.float32).view(np.uint32).astype(np.int64)
    coded = torch.from_numpy(values).to(DTYPES[kind])
    return coded.view(torch.int16 if BITS[kind] == 16 else torch.uint8).numpy().astype(np.int64) & (
        (1 << BITS[kind]) - 1
    )


def choose(rng, kind, rows, depth, ordered=True):
    """Random metadata: nibbles [rows, pieces] and the k of every kept element [rows, depth / 2]."""
    span, run = {"tf32": (2, 0), "s4": (8, 2), "u4": (8, 2)}.get(kind, (4, 1))
    pieces = depth // span
    nibbles, kept = np.zeros((rows, pieces), np.int64), np.zeros((rows, depth // 2), int)
    for row in range(rows):
        at = []
        for piece in range(pieces):
            base = piece * span
            if kind == "tf32":
                second = int(rng.integers(2))
                nibbles[row, piece] = 0xE if second else 0x4
                at.append(base + second)
                continue
            first, second = rng.choice(4, 2, replace=False)
            if ordered and first > second:
                first, second = second, first
            nibbles[row, piece] = first | second << 2
            at += [base + run * i + e for i in (first, second) for e in range(run)]
        kept[row] = at
    return nibbles, kept


def word(nibbles):
    return sum(int(n) << (4 * i) for i, n in enumerate(nibbles))


def metadata(nibbles, kind, selector):
    """The metadata register of 32 lanes; lanes that hold none get a word that would be noticed."""
    out = np.full(32, 0xFFFFFFFF, np.uint32)
    pieces = nibbles.shape[1]
    for g in range(8):
        if BITS[kind] <= 8:  # a word is one row's; rows g and g + 8 in neighbouring lanes, then the next words
            for part in range(pieces // 8):
                for half in range(2):
                    lane = 4 * g + 2 * (part + selector) + half
                    out[lane] = word(nibbles[g + 8 * half, 8 * part :][:8])
        else:  # a word is 16 bits of row g and 16 bits of row g + 8
            lanes = pieces // 4
            for part in range(lanes):
                low, high = (word(nibbles[g + 8 * half, 4 * part :][:4]) for half in range(2))
                out[4 * g + lanes * selector + part] = low | high << 16
    return out
