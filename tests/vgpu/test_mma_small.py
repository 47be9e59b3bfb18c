"""mma.sync of eight rows: s8, s4, b1, the f16 products of quad pairs, and the rounding of f64."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from tilewright.vgpu import launch

LANES = np.arange(32)
G, T = LANES // 4, LANES % 4


def kernel(opcode, counts, kinds=("b32",) * 4):
    """Loads the registers of A, B and C of each lane from three arrays, runs one mma, stores D."""
    lines = [".version 8.5", ".target sm_90a", ".address_size 64"]
    lines.append(".visible .entry k(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc)\n{")
    lines += [".reg .b64 %q<4>, %o;", ".reg .b32 %t;", "mov.u32 %t, %tid.x;"]
    loads, stores, groups = [], [], []
    for at, (name, count, kind) in enumerate(zip("dabc", counts, kinds, strict=True)):
        size = int(kind[1:]) // 8
        lines += [f".reg .{kind} %{name}<{count}>;", f"ld.param.u64 %q{at}, [p{name}];"]
        lines += [f"mul.wide.u32 %o, %t, {size * count};", f"add.s64 %q{at}, %q{at}, %o;"]
        names = [f"%{name}{i}" for i in range(count)]
        groups.append("{" + ", ".join(names) + "}")
        if name == "d":
            stores = [f"st.global.{kind} [%q0+{size * i}], {n};" for i, n in enumerate(names)]
        else:
            loads += [f"ld.global.{kind} {n}, [%q{at}+{size * i}];" for i, n in enumerate(names)]
    return "\n".join([*lines, *loads, f"{opcode} {', '.join(groups)};", *stores, "ret;\n}"])


def run(opcode, a, b, c, d):
    """`d` gets the result; every array is [32 lanes, registers]."""
    arrays = [torch.from_numpy(np.ascontiguousarray(x)) for x in (d, a, b, c)]
    kinds = [f"b{8 * x.element_size()}" for x in arrays]
    ptx = kernel(opcode, [x.shape[1] for x in arrays], kinds)
    report = launch(ptx, "k", 1, 32, arrays, target="sm_90a")
    assert report.ok, str(report)
    return arrays[0].numpy()


def packed(codes, bits):
    """[8 lines, k] -> one register a lane: lane 4 g + t has line g, the t-th 32 bits of k."""
    per = 32 // bits
    shifts = np.arange(per, dtype=np.uint64) * np.uint64(bits)
    words = (codes.astype(np.uint64).reshape(8, 4, per) << shifts).sum(-1)
    return words.astype(np.uint32).reshape(32, 1)


def result(d):
    out = np.zeros((8, 8), d.dtype)
    for index in range(2):
        out[G, 2 * T + index] = d[:, index]
    return out


def fragment_c(c):
    return np.stack([c[G, 2 * T], c[G, 2 * T + 1]], 1)


RANGES = {"s8": (8, -128, 128), "u8": (8, 0, 256), "s4": (4, -8, 8), "u4": (4, 0, 16)}


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize(("kind", "other"), [("s8", "u8"), ("u8", "u8"), ("s8", "s8"), ("s4", "u4"), ("u4", "s4")])
def test_integers(kind, other, saturate):
    bits = RANGES[kind][0]
    depth = 128 // bits
    rng = np.random.default_rng(bits + saturate)
    a, b = rng.integers(*RANGES[kind][1:], size=(8, depth)), rng.integers(*RANGES[other][1:], size=(depth, 8))
    c = rng.integers(-(2**31), 2**31, size=(8, 8))
    c[:2], c[2:4] = 2**31 - 2, -(2**31) + 2
    opcode = f"mma.sync.aligned.m8n8k{depth}.row.col{'.satfinite' * saturate}.s32.{kind}.{other}.s32"
    mask = (1 << bits) - 1
    d = run(opcode, packed(a & mask, bits), packed(b.T & mask, bits), fragment_c(c.astype(np.int32)),
            np.zeros((32, 2), np.int32))  # fmt: skip
    exact = a @ b + c
    wrapped = (exact + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(result(d), np.clip(exact, -(2**31), 2**31 - 1) if saturate else wrapped)


@pytest.mark.parametrize(("operation", "function"), [("and", np.bitwise_and), ("xor", np.bitwise_xor)])
def test_single_bits(operation, function):
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 2, size=(8, 128)), rng.integers(0, 2, size=(128, 8))
    c = rng.integers(-99, 99, size=(8, 8)).astype(np.int32)
    opcode = f"mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.{operation}.popc"
    d = run(opcode, packed(a, 1), packed(b.T, 1), fragment_c(c), np.zeros((32, 2), np.int32))
    np.testing.assert_array_equal(result(d), function(a[:, :, None], b[None]).sum(1) + c)


# PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16": quad pair q has the lanes 4q + j and 16 + 4q + j.
QUAD, HIGH = LANES % 16 // 4, LANES // 16


def quad_operand(matrices, transposed):
    """[4, 8 lines, 4 k] -> two registers a lane; `transposed`: a lane holds one k and four lines."""
    out = np.zeros((32, 4), np.float16)
    for i in range(4):
        out[:, i] = matrices[QUAD, i + 4 * HIGH, T] if transposed else matrices[QUAD, T + 4 * HIGH, i]
    return out.view(np.uint32)


def quad_places(wide):
    """Row and column of every accumulator element of a lane."""
    i = np.arange(8)[None, :]
    lane = LANES[:, None]
    if wide:
        row = (lane & 1) + (i & 2) + 4 * HIGH[:, None]
        return row, (i & 4) + (lane & 2) + (i & 1)
    return T[:, None] + 4 * HIGH[:, None] + 0 * i, i + 0 * lane


@pytest.mark.parametrize("layouts", ["row.col", "row.row", "col.col", "col.row"])
@pytest.mark.parametrize(("d_kind", "c_kind"), [("f32", "f32"), ("f32", "f16"), ("f16", "f16")])
def test_quad_pairs(layouts, d_kind, c_kind):
    rng = np.random.default_rng(4)
    a, b = rng.integers(-8, 9, size=(4, 8, 4)) / 4, rng.integers(-8, 9, size=(4, 4, 8)) / 4
    c = rng.integers(-9, 10, size=(4, 8, 8)) / 2
    a_layout, b_layout = layouts.split(".")
    wide = {"f32": np.float32, "f16": np.float16}
    old = c[QUAD[:, None], *quad_places(c_kind == "f32")].astype(wide[c_kind])
    out = np.zeros((32, 8), wide[d_kind])
    d = run(
        f"mma.sync.aligned.m8n8k4.{layouts}.{d_kind}.f16.f16.{c_kind}",
        quad_operand(a, a_layout == "col"),
        quad_operand(b.transpose(0, 2, 1), b_layout == "row"),
        old.view(np.uint32),
        out.view(np.uint32),
    ).view(wide[d_kind])
    expected = (a @ b + c).astype(wide[d_kind])
    np.testing.assert_array_equal(d, expected[QUAD[:, None], *quad_places(d_kind == "f32")])


def rounded(value, mode):
    """The double next to an exact value in a rounding mode."""
    near = float(value)
    exact = Fraction(near)
    if mode == "rn" or exact == value:
        return near
    up = math.nextafter(near, math.inf) if exact < value else near
    down = near if exact < value else math.nextafter(near, -math.inf)
    return {"rp": up, "rm": down, "rz": down if value > 0 else up}[mode]


@pytest.mark.parametrize("place", ["before", "behind"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_doubles_are_a_chain_of_fma(mode, place):
    rng = np.random.default_rng(5)
    a, b, c = rng.normal(size=(8, 4)), rng.normal(size=(4, 8)), rng.normal(size=(8, 8))
    opcode = f"mma.sync.aligned.m8n8k4.row.col.{mode}.f64.f64.f64.f64"
    if place == "behind":
        opcode = f"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.{mode}"
    d = run(opcode, a[G, T][:, None], b[T, G][:, None], fragment_c(c), np.zeros((32, 2)))
    expected = np.zeros((8, 8))
    for row in range(8):
        for column in range(8):
            total = c[row, column]
            for k in range(4):
                total = rounded(Fraction(a[row, k]) * Fraction(b[k, column]) + Fraction(total), mode)
            expected[row, column] = total
    np.testing.assert_array_equal(result(d), expected)
