"""Every form of cvt over all 16-bit sources and edges of wider ones, against rounding done exactly in wide floats."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
MODES = ("rn", "rz", "rm", "rp")
# Significant bits, smallest normal exponent, largest finite value.
FORMATS = {
    "f16": (11, -14, 65504.0), "bf16": (8, -126, 2.0**127 * (2 - 2**-7)), "f32": (24, -126, 2.0**127 * (2 - 2**-23)),
    "tf32": (11, -126, 2.0**127 * (2 - 2**-10)), "e4m3": (4, -6, 448.0), "e5m2": (3, -14, 57344.0),
    "f64": (53, -1022, float(np.finfo(np.float64).max)),
}  # fmt: skip
NANS = {"f16": 0x7FFF, "bf16": 0x7FFF, "e4m3": 0x7F, "e5m2": 0x7F, "tf32": 0x7FFFFFFF}
CODES = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "tf32": np.uint32, "f64": np.uint64}
TORCH = {
    "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
    "f32": torch.float32, "tf32": torch.float32, "f64": torch.float64,
}  # fmt: skip
SIGNED = {np.uint8: torch.uint8, np.uint16: torch.int16, np.uint32: torch.int32, np.uint64: torch.int64}
INTEGERS = {f"{s}{b}": np.dtype(f"{'u' * (s == 'u')}int{b}") for s in "su" for b in (8, 16, 32, 64)}


def values(codes, kind):
    """The numbers behind codes, exact in float64."""
    return torch.from_numpy(codes.copy()).view(TORCH[kind]).double().numpy()


def codes_of(x, kind):
    """Codes of numbers that the format holds; its canonical NaN."""
    coded = torch.from_numpy(np.asarray(x, np.float64)).to(TORCH[kind])
    width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[coded.element_size()]
    out = coded.view(SIGNED[width]).numpy().view(width).copy()
    if kind in NANS:
        out[np.isnan(x)] = NANS[kind]
    return out


def f32_edges():
    """Halves and fp8 values, their neighbours, and the ties between them."""
    every = np.arange(65536, dtype=np.uint16)
    halves = torch.from_numpy(every.view(np.int16)).view(torch.float16).float().numpy().view(np.uint32)[::41]
    base = np.concatenate([halves, every[::43].astype(np.uint32) << 16, np.array([0x477FE000, 0x7F7F0000], np.uint32)])
    ties = [0x800, 0x1000, 0x8000, 0x10000, 0x80000, 0x100000]
    offsets = np.array([0, 1, -1, *(t + d for t in ties for d in (-1, 0, 1))], np.int64)
    edges = (base.astype(np.int64)[:, None] + offsets).ravel() & 0xFFFFFFFF
    rng = np.random.default_rng(1)
    return np.unique(np.concatenate([edges, rng.integers(0, 2**32, 4000)]).astype(np.uint32))


def f64_edges():
    wide = values(f32_edges()[::3], "f32").view(np.uint64)
    offsets = np.array([0, 1, -1, 1 << 28, (1 << 28) + 1, 1 << 30], np.int64).astype(np.uint64)
    rng = np.random.default_rng(2)
    return np.concatenate([(wide[:, None] + offsets).ravel(), rng.integers(0, 2**64, 4000, dtype=np.uint64)])


SOURCES = {
    "f16": np.arange(65536, dtype=np.uint16), "bf16": np.arange(65536, dtype=np.uint16),
    "f32": f32_edges(), "f64": f64_edges(),
}  # fmt: skip


def to_integral(x, mode):
    away = np.copysign(np.floor(np.abs(x) + 0.5), x) if mode == "rna" else None
    return {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil, "rna": lambda _: away}[mode](x)


def rounded(x, kind, mode, finite=False):
    """x (float64 or wider) in the format: scaled to its last place, made integral, scaled back."""
    bits, smallest, top = FORMATS[kind]
    _, exponent = np.frexp(x)
    place = np.maximum(exponent - 1, smallest) - (bits - 1)
    with np.errstate(all="ignore"):
        out = np.ldexp(to_integral(np.ldexp(x, -place), mode), place)
    sign = np.sign(x)
    toward_zero = (mode == "rz") | ((mode == "rm") & (sign > 0)) | ((mode == "rp") & (sign < 0))
    over = (np.abs(out) > top) & ~np.isinf(x)
    out = np.where(over, np.copysign(np.where(toward_zero | finite, top, np.inf), x), out)
    return np.where(np.isinf(x), np.copysign(top if finite else np.inf, x), out).astype(np.float64)


def flushed(x, smallest):
    return np.where(np.abs(x) < 2.0**smallest, np.copysign(0.0, x), x)


def limited(x, words):
    """.sat and .relu, which make +0 of what they cut off, and .sat of NaN."""
    if "sat" in words:
        x = np.where(np.isnan(x) | (x <= 0), 0.0, np.minimum(x, 1.0))
    return np.where(x <= 0, 0.0, x) if "relu" in words else x


def convert(x, to, source, words):
    """What a float of format `source` becomes in format `to`."""
    if "ftz" in words and source == "f32":
        x = flushed(x, -126)
    x = limited(x, words)
    mode = next((w for w in words if w in (*MODES, "rna")), "rn")
    out = rounded(x, to, mode, "satfinite" in words)
    return flushed(out, -126) if "ftz" in words and to == "f32" else out


def run(elementwise, opcode, to, arrays):
    operands = ", ".join(f"%x{k}" for k in range(len(arrays)))
    return elementwise(f"{opcode} %y, {operands};", arrays, to)


def compare(found, expected, kind, opcode, exact_nan):
    want = codes_of(expected, kind)
    nan = np.isnan(expected)
    if not exact_nan:
        assert np.isnan(values(found[nan], kind)).all(), opcode
        found, want = found[~nan], want[~nan]
    np.testing.assert_array_equal(found, want, err_msg=opcode)


def forms(heads, *flags):
    """`rn.ftz` and the like: a head and any of the flags, in order."""
    choices = [("", f) for f in flags]
    return [".".join(filter(None, (h, *c))) for h in heads for c in itertools.product(*choices)]


SCALAR = [
    *(("f16", "f32", f) for f in forms(MODES, "ftz", "sat")), *(("f16", "f64", f) for f in forms(MODES, "sat")),
    *(("f32", "f64", f) for f in forms(MODES, "ftz", "sat")), *(("bf16", "f32", f) for f in forms(MODES, "ftz")),
    *(("bf16", "f64", f) for f in MODES), *(("f32", "f16", f) for f in forms([""], "ftz", "sat")),
    *(("f64", "f16", f) for f in forms([""], "sat")), *(("f64", "f32", f) for f in forms([""], "ftz", "sat")),
    *(("f32", "bf16", f) for f in forms(["", *MODES], "ftz")), *(("f64", "bf16", f) for f in ["", *MODES]),
    *(("f16", "bf16", f) for f in MODES), *(("bf16", "f16", f) for f in MODES),
    *((t, "f32", f) for t in ("f16", "bf16") for f in forms(("rn", "rz"), "satfinite", "relu") if "." in f),
    *(("tf32", "f32", f) for f in (*forms(("rn", "rz"), "relu"), "rna", "rna.satfinite")),
]  # fmt: skip


@pytest.mark.parametrize(("to", "source"), sorted({case[:2] for case in SCALAR}))
def test_floats_to_floats(elementwise, to, source):
    for target, origin, head in SCALAR:
        if (target, origin) != (to, source):
            continue
        opcode = ".".join(filter(None, ("cvt", head, to, source)))
        words = head.split(".")
        found = run(elementwise, opcode, CODES[to], [SOURCES[source]])
        expected = convert(values(SOURCES[source], source), to, source, words)
        if to == "tf32":  # its low 13 bits mean nothing
            keep = ~np.isnan(expected)
            np.testing.assert_array_equal(found[keep] >> 13, codes_of(expected, to)[keep] >> 13, err_msg=opcode)
            assert np.isnan(values(found[~keep], to)).all()
        else:
            compare(found, expected, to, opcode, to in NANS)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_integral_values_of_the_same_format(elementwise, kind):
    flags = {"f16": ["sat"], "f32": ["ftz", "sat"], "f64": ["sat"], "bf16": []}[kind]
    x = values(SOURCES[kind], kind)
    for head in forms([f"{m}i" for m in MODES], *flags):
        words = head.split(".")
        expected = limited(to_integral(flushed(x, -126) if "ftz" in words else x, words[0][:2]), words)
        opcode = f"cvt.{head}.{kind}.{kind}"
        compare(run(elementwise, opcode, CODES[kind], [SOURCES[kind]]), expected, kind, opcode, False)


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
def test_floats_to_integers(elementwise, source):
    x = values(SOURCES[source], source)
    for mode, (name, dtype) in itertools.product(MODES, INTEGERS.items()):
        if source == "bf16" and name.endswith("8"):
            continue  # not a form
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        for flag in ("", ".ftz") if source == "f32" else ("",):
            whole = to_integral(flushed(x, -126) if flag else x, mode)
            inside = (whole > low) & (whole < float(high) + (dtype.itemsize < 8))
            expected = np.where(whole > 0, np.array(high, dtype), np.array(low, dtype))
            expected[inside] = whole[inside].astype(dtype)
            wide = source == "f64" or dtype.itemsize == 8
            expected[np.isnan(x)] = np.array([1 << (8 * dtype.itemsize - 1)], np.uint64).astype(dtype) if wide else 0
            opcode = f"cvt.{mode}i{flag}.{name}.{source}"
            found = run(elementwise, opcode, dtype, [SOURCES[source]])
            np.testing.assert_array_equal(found, expected, err_msg=opcode)


def integers(dtype):
    info = np.iinfo(dtype)
    if dtype.itemsize <= 2:
        return np.arange(info.min, info.max + 1, dtype=np.int64).astype(dtype)
    powers = np.array([1 << k for k in range(info.bits - (info.min < 0))], np.uint64)
    beside = [powers + (powers >> np.uint64(shift)) for shift in (8, 9, 11, 12, 24, 25, 53, 54)]
    ties = np.concatenate([x + d for x in (powers, *beside) for d in np.array([0, 1, -1]).astype(np.uint64)])
    rng = np.random.default_rng(3)
    spread = rng.integers(info.min, info.max, 3000, dtype=dtype, endpoint=True) >> rng.integers(
        0, info.bits, 3000
    ).astype(dtype)
    edges = ties.astype(dtype)
    return np.concatenate([edges, (np.zeros_like(edges) - edges).astype(dtype), spread])


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_to_floats(elementwise, source):
    data = integers(INTEGERS[source])
    x = data.astype(np.longdouble)  # 64 significant bits
    for to, mode in itertools.product(("f16", "bf16", "f32", "f64"), MODES):
        if to == "bf16" and source.endswith("8"):
            continue  # not a form
        for flags in forms([""], "sat") if to != "bf16" else [""]:
            opcode = ".".join(filter(None, ("cvt", mode, flags, to, source)))
            expected = rounded(limited(x, flags.split(".")), to, mode)
            compare(run(elementwise, opcode, CODES[to], [data]), expected, to, opcode, True)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs_of_halves(elementwise, kind):
    high, low = SOURCES["f32"], np.roll(SOURCES["f32"], 77)
    for head in forms(("rn", "rz"), "satfinite", "relu"):
        opcode = f"cvt.{head}.{kind}x2.f32"
        found = run(elementwise, opcode, np.uint32, [high, low])
        for codes, shift in ((high, 16), (low, 0)):
            expected = convert(values(codes, "f32"), kind, "f32", head.split("."))
            compare((found >> shift).astype(np.uint16), expected, kind, opcode, True)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
@pytest.mark.parametrize("head", ["rn.satfinite", "rn.satfinite.relu"])
def test_to_fp8(elementwise, kind, head):
    high, low = SOURCES["f32"], np.roll(SOURCES["f32"], 77)
    every, other = SOURCES["f16"], np.roll(SOURCES["f16"], 77)
    pairs = every.astype(np.uint32) << 16 | other
    cases = [("f32", [high, low], high, low), ("f16x2", [pairs], every, other)]
    for source, arrays, first, second in cases:
        opcode = f"cvt.{head}.{kind}x2.{source}"
        found = run(elementwise, opcode, np.uint16, arrays)
        for codes, shift in ((first, 8), (second, 0)):
            expected = convert(values(codes, source[:3]), kind, source, head.split("."))
            compare((found >> shift & 0xFF).astype(np.uint8), expected, kind, opcode, True)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
@pytest.mark.parametrize("head", ["rn", "rn.relu"])
def test_from_fp8(elementwise, kind, head):
    opcode = f"cvt.{head}.f16x2.{kind}x2"
    found = run(elementwise, opcode, np.uint32, [SOURCES["f16"]])  # every pair of codes
    for shift in (8, 0):
        x = values((SOURCES["f16"] >> shift & 0xFF).astype(np.uint8), kind)
        expected = convert(x, "f16", kind, head.split("."))
        compare((found >> 2 * shift).astype(np.uint16), expected, "f16", opcode, True)
