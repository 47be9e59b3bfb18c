"""mma.sync: every shape and type against a product in float64 or integers, with the fragment layouts of the PTX ISA."""

import numpy as np
import pytest
import torch

from tilewright.vgpu import launch
from tilewright.vgpu.errors import UnsupportedInstruction

# name: bits of an element, low and high bound of the random values
FLOATS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}
INTEGERS = {"s8": (8, -128, 128), "u8": (8, 0, 256), "s4": (4, -8, 8), "u4": (4, 0, 16)}


def encode(values, kind):
    """Codes of exactly representable values."""
    tensor = torch.from_numpy(np.asarray(values, dtype=np.float32))
    if kind in INTEGERS:
        bits = INTEGERS[kind][0]
        return (np.asarray(values).astype(np.int64) & ((1 << bits) - 1)).astype(np.uint32)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    if kind == "tf32":
        return tensor.view(torch.int32).numpy().view(np.uint32)
    coded = tensor.to(dtype[kind])
    assert torch.equal(coded.float(), tensor)
    wide = coded.view(torch.int16 if FLOATS[kind] == 16 else torch.uint8).numpy()
    return wide.astype(np.int64).astype(np.uint32) & (0xFFFF if FLOATS[kind] == 16 else 0xFF)


def sample(rng, shape, kind):
    if kind in INTEGERS:
        return rng.integers(*INTEGERS[kind][1:], size=shape)
    return rng.integers(-8, 9, size=shape) / 4.0


def bits_of(kind):
    return FLOATS[kind] if kind in FLOATS else INTEGERS[kind][0]


def pack_a(codes, bits):
    """PTX ISA, "Matrix fragments for mma": A of m16nXk: rows g and g + 8, 32 bits of k per register."""
    per = 32 // bits
    registers = codes.shape[1] * bits // 64
    out = np.zeros((32, registers), np.uint32)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(registers * per):
            register = i // per
            row = g + 8 * (register % 2)
            column = t * per + i % per + (register // 2) * 4 * per
            out[lane, register] |= np.uint32(int(codes[row, column]) << (bits * (i % per)))
    return out


def pack_b(codes, bits):
    """B of mXn8k: column g, k in 32-bit pieces, second register 16 bytes of k further on."""
    per = 32 // bits
    registers = codes.shape[0] * bits // 128
    out = np.zeros((32, registers), np.uint32)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(registers * per):
            k = t * per + i % per + (i // per) * 4 * per
            out[lane, i // per] |= np.uint32(int(codes[k, g]) << (bits * (i % per)))
    return out


def accumulator_places(lane):
    g, t = lane // 4, lane % 4
    return [(g + 8 * (i // 2), 2 * t + i % 2) for i in range(4)]


def pack_c(c, half):
    out = np.zeros((32, 2 if half else 4), np.uint32)
    for lane in range(32):
        values = np.array([c[place] for place in accumulator_places(lane)])
        out[lane] = values.astype(np.float16).view(np.uint32) if half else values.view(np.uint32)
    return out


def unpack_d(raw, half, dtype):
    out = np.zeros((16, 8), np.float16 if half else dtype)
    for lane in range(32):
        values = raw[lane].view(np.float16) if half else raw[lane].view(dtype)
        for value, place in zip(values, accumulator_places(lane), strict=True):
            out[place] = value
    return out


def kernel(opcode, counts, wide=False):
    """Loads the fragments of each lane from three arrays, runs one mma, stores D."""
    size = 8 if wide else 4
    kind = "b64" if wide else "b32"
    names = "dabc"
    lines = [".version 8.5", ".target sm_90a", ".address_size 64"]
    lines.append(".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)\n{")
    lines += [f".reg .{kind} %{n}<9>;" for n in names] + [".reg .b64 %q<5>;", ".reg .b64 %o<5>;", ".reg .b32 %t;"]
    lines.append("mov.u32 %t, %tid.x;")
    for at, (n, count) in enumerate(zip(names, counts, strict=True)):
        lines.append(f"ld.param.u64 %q{at}, [p{n}];\nmul.wide.u32 %o{at}, %t, {size * count};")
        lines.append(f"add.s64 %q{at}, %q{at}, %o{at};")
        if n != "d":
            lines += [f"ld.global.{kind} %{n}{i}, [%q{at}+{size * i}];" for i in range(count)]
    groups = ["{" + ", ".join(f"%{n}{i}" for i in range(count)) + "}" for n, count in zip(names, counts, strict=True)]
    lines.append(f"{opcode} {', '.join(groups)};")
    lines += [f"st.global.{kind} [%q0+{size * i}], %d{i};" for i in range(counts[0])]
    return "\n".join([*lines, "ret;\n}"])


def run(opcode, a, b, c, wide=False):
    a, b, c = (torch.from_numpy(np.ascontiguousarray(x)) for x in (a, b, c))
    d = torch.zeros_like(c)
    ptx = kernel(opcode, (c.shape[1], a.shape[1], b.shape[1], c.shape[1]), wide)
    report = launch(ptx, "k", 1, 32, [a, b, c, d], target="sm_90a")
    assert report.ok, str(report)
    return d.numpy()


FLOAT_CASES = [
    ("f16", "f16", 8, "f32"), ("f16", "f16", 16, "f32"), ("f16", "f16", 8, "f16"), ("f16", "f16", 16, "f16"),
    ("bf16", "bf16", 8, "f32"), ("bf16", "bf16", 16, "f32"), ("tf32", "tf32", 4, "f32"), ("tf32", "tf32", 8, "f32"),
    ("e4m3", "e4m3", 32, "f32"), ("e4m3", "e5m2", 32, "f32"), ("e5m2", "e4m3", 32, "f32"), ("e5m2", "e5m2", 32, "f16"),
    ("e4m3", "e4m3", 16, "f16"), ("e4m3", "e4m3", 32, "f16"),
]  # fmt: skip


@pytest.mark.parametrize(("a_kind", "b_kind", "depth", "acc"), FLOAT_CASES)
def test_float_types(a_kind, b_kind, depth, acc):
    rng = np.random.default_rng(depth)
    a, b = sample(rng, (16, depth), a_kind), sample(rng, (depth, 8), b_kind)
    c = rng.integers(-4, 5, size=(16, 8)).astype(np.float32) / 2
    half = acc == "f16"
    opcode = f"mma.sync.aligned.m16n8k{depth}.row.col.{acc}.{a_kind}.{b_kind}.{acc}"
    raw = run(
        opcode,
        pack_a(encode(a, a_kind), bits_of(a_kind)),
        pack_b(encode(b, b_kind), bits_of(b_kind)),
        pack_c(c, half),
    )
    # Quarters times quarters: every partial sum is exact in f32 and the result is one rounding away in f16.
    expected = (a.astype(np.float64) @ b + c).astype(np.float16 if half else np.float32)
    np.testing.assert_array_equal(unpack_d(raw, half, np.float32), expected)


INTEGER_CASES = [
    ("s8", "s8", 16), ("s8", "s8", 32), ("u8", "u8", 32), ("s8", "u8", 32), ("u8", "s8", 16),
    ("s4", "s4", 32), ("s4", "s4", 64), ("u4", "u4", 64), ("s4", "u4", 64), ("u4", "s4", 32),
]  # fmt: skip


@pytest.mark.parametrize(("a_kind", "b_kind", "depth"), INTEGER_CASES)
@pytest.mark.parametrize("saturate", [False, True])
def test_integer_types(a_kind, b_kind, depth, saturate):
    rng = np.random.default_rng(depth + saturate)
    a, b = sample(rng, (16, depth), a_kind), sample(rng, (depth, 8), b_kind)
    c = rng.integers(-(2**31), 2**31, size=(16, 8))
    c[:4] = 2**31 - 3
    c[4:8] = -(2**31) + 3
    opcode = f"mma.sync.aligned.m16n8k{depth}.row.col{'.satfinite' * saturate}.s32.{a_kind}.{b_kind}.s32"
    bits = bits_of(a_kind)
    raw = run(
        opcode, pack_a(encode(a, a_kind), bits), pack_b(encode(b, b_kind), bits), pack_c(c.astype(np.int32), False)
    )
    exact = a.astype(np.int64) @ b.astype(np.int64) + c
    expected = np.clip(exact, -(2**31), 2**31 - 1) if saturate else exact.astype(np.uint64).astype(np.uint32)
    np.testing.assert_array_equal(
        unpack_d(raw, False, np.int32), expected.astype(np.uint64).astype(np.uint32).view(np.int32)
    )


@pytest.mark.parametrize(("depth", "operation"), [(128, "and"), (256, "and"), (256, "xor")])
def test_single_bits(depth, operation):
    rng = np.random.default_rng(depth)
    a, b = rng.integers(0, 2, size=(16, depth)), rng.integers(0, 2, size=(depth, 8))
    c = rng.integers(-100, 100, size=(16, 8)).astype(np.int32)
    opcode = f"mma.sync.aligned.m16n8k{depth}.row.col.s32.b1.b1.s32.{operation}.popc"
    raw = run(opcode, pack_a(a, 1), pack_b(b, 1), pack_c(c, False))
    pairs = (a[:, :, None] & b[None]) if operation == "and" else (a[:, :, None] ^ b[None])
    np.testing.assert_array_equal(unpack_d(raw, False, np.int32), pairs.sum(1) + c)


@pytest.mark.parametrize(("rows", "depth"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_doubles(rows, depth):
    rng = np.random.default_rng(rows + depth)
    a, b, c = rng.normal(size=(rows, depth)), rng.normal(size=(depth, 8)), rng.normal(size=(rows, 8))
    lanes = np.arange(32)
    g, t = lanes // 4, lanes % 4
    halves = rows // 8
    fragment_a = np.stack([a[g + 8 * (i % halves), t + 4 * (i // halves)] for i in range(rows * depth // 32)], 1)
    fragment_b = np.stack([b[t + 4 * i, g] for i in range(depth // 4)], 1)
    places = [(g + 8 * (i // 2), 2 * t + i % 2) for i in range(2 * halves)]
    raw = run(
        f"mma.sync.aligned.m{rows}n8k{depth}.row.col.f64.f64.f64.f64",
        fragment_a,
        fragment_b,
        np.stack([c[p] for p in places], 1),
        wide=True,
    )
    expected = a @ b + c
    for i, place in enumerate(places):
        np.testing.assert_allclose(raw[:, i], expected[place], rtol=1e-13, atol=1e-13)


def test_f16_special_values():
    """Denormals, infinities and NaNs of A meet the identity: D is A."""
    a = np.zeros((16, 8), np.float16)
    a[0] = [2.0**-24, 2.0**-15, 65504, -65504, 2.0**-14, -0.0, 1.5, 2.0**-24 * 1023]
    a[1, 0], a[2, 1], a[3, 2] = np.inf, -np.inf, np.nan
    b = np.eye(8, dtype=np.float16)
    raw = run(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        pack_a(a.view(np.uint16), 16),
        pack_b(b.view(np.uint16), 16),
        pack_c(np.zeros((16, 8), np.float32), False),
    )
    d = unpack_d(raw, False, np.float32)
    np.testing.assert_array_equal(d[0], a[0].astype(np.float32))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(d[1:], a[1:].astype(np.float32) @ b.astype(np.float32))


def test_tf32_ignores_low_bits():
    a = np.full((16, 4), 1.0, np.float32)
    noisy = (a.view(np.uint32) | 0x1FFF).view(np.float32)
    b = np.ones((4, 8), np.float32)
    raw = run(
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
        pack_a(noisy.view(np.uint32), 32),
        pack_b(b.view(np.uint32), 32),
        pack_c(np.zeros((16, 8), np.float32), False),
    )
    np.testing.assert_array_equal(unpack_d(raw, False, np.float32), np.full((16, 8), 4.0))


def test_a_partial_warp_is_a_finding():
    zeros = torch.zeros(32, 4)
    ptx = kernel("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (4, 4, 2, 4))
    report = launch(ptx, "k", 1, 16, [zeros, zeros, zeros, zeros.clone()], target="sm_90a")
    assert [f.kind for f in report.findings] == ["illegal"]
    assert "all 32 threads" in report.findings[0].message


@pytest.mark.parametrize(
    ("opcode", "why"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32", "no mma takes together"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16", "no mma takes together"),
        ("mma.sync.aligned.m8n8k32.row.col.s32.s8.s8.s32", "s8 takes m8n8k16, m16n8k16 and m16n8k32"),
        ("mma.sync.aligned.m8n8k8.row.col.f32.f16.f16.f32", "f16 takes m16n8k8 and m16n8k16"),
        ("mma.sync.aligned.m8n8k4.row.row.f64.f64.f64.f64", "takes .col"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.s32", "no mma takes together"),
        ("mma.sync.aligned.m16n8k4.row.col.rna.f64.f64.f64.f64", "unsupported modifier .f64"),
        ("mma.sync.aligned.m16n8k2.row.col.f64.f64.f64.f64", "no f64 mma takes"),
        ("mma.sync.aligned.m8n8k4.row.row.f16.f16.f16.f32", "no mma takes together"),
        ("mma.sync.aligned.m8n8k256.row.col.s32.b1.b1.s32.and.popc", "no single-bit mma takes"),
        ("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32", "takes .col"),
        ("mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32", "needs s32 accumulators"),
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "has 4 operands where 6 belong"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.kind::f8f6f4", "needs sm_120a"),
    ],
)
def test_refused_spellings(opcode, why):
    with pytest.raises(UnsupportedInstruction, match=why):
        launch(kernel(opcode, (4, 4, 2, 4)), "k", 1, 128, [], target="sm_90a")
