"""mma.sp: every shape and type against the product of the dense matrix that the kept elements and the metadata make."""

import numpy as np
import pytest
import torch
from sparse_operands import BITS, G, T, choose, encode, metadata, sample

from tilewright.vgpu import launch
from tilewright.vgpu.errors import PtxSyntaxError, UnsupportedInstruction


def registers(codes, bits, lines):
    """[lines, k] -> [32, n]: the 32 bits at 4 t of each 16 bytes of k; rows g and g + 8 in turn where there are 16."""
    per = 32 // bits
    columns = []
    for start in range(0, codes.shape[1], 4 * per):
        for row in range(0, lines, 8):
            word = np.zeros(32, np.int64)
            for e in range(per):
                word |= codes[G + row, start + T * per + e] << (bits * e)
            columns.append(word)
    return np.stack(columns, 1).astype(np.uint32)


def kernel(opcode, counts, selector):
    lines = [".version 8.6", ".target sm_90a", ".address_size 64"]
    lines.append(".visible .entry k(" + ", ".join(f".param .u64 p{n}" for n in "dabce") + ")\n{")
    lines += [".reg .b64 %q<5>, %o;", ".reg .b32 %t;", "mov.u32 %t, %tid.x;"]
    loads, groups = [], []
    for at, (name, count) in enumerate(zip("dabce", (*counts, 1), strict=True)):
        lines += [f".reg .b32 %{name}<{count}>;", f"ld.param.u64 %q{at}, [p{name}];"]
        lines += [f"mul.wide.u32 %o, %t, {4 * count};", f"add.s64 %q{at}, %q{at}, %o;"]
        groups.append("{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}")
        if name != "d":
            loads += [f"ld.global.b32 %{name}{i}, [%q{at}+{4 * i}];" for i in range(count)]
    statement = f"{opcode} {', '.join(groups[:4])}, %e0, {selector};"
    stores = [f"st.global.b32 [%q0+{4 * i}], %d{i};" for i in range(counts[0])]
    return "\n".join([*lines, *loads, statement, *stores, "ret;\n}"])


class Case:
    """Random operands of one spelling and the dense product."""

    def __init__(self, a_kind, b_kind, depth, acc, selector=0, ordered=True, extra=""):
        rng = np.random.default_rng(depth + selector)
        self.acc = acc
        nibbles, kept = choose(rng, a_kind, 16, depth, ordered)
        values, b = sample(rng, (16, depth // 2), a_kind), sample(rng, (depth, 8), b_kind)
        dense = np.zeros((16, depth))
        np.put_along_axis(dense, kept, values, 1)
        c = rng.integers(-9, 10, size=(16, 8)) / (1 if acc == "s32" else 2)
        self.expected = dense @ b + c
        places = [(G + 8 * (i // 2), 2 * T + i % 2) for i in range(4)]
        old = np.stack([c[place] for place in places], 1)
        self.places = places
        self.dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[acc]
        self.arrays = [
            registers(encode(values, a_kind), BITS[a_kind], 16),
            registers(encode(b.T, b_kind), BITS[b_kind], 8),
            np.ascontiguousarray(old.astype(self.dtype)).view(np.uint32),
            metadata(nibbles, a_kind, selector),
        ]
        name = "mma.sp::ordered_metadata" if ordered else "mma.sp"
        self.opcode = f"{name}.sync.aligned.m16n8k{depth}.row.col{extra}.{acc}.{a_kind}.{b_kind}.{acc}"
        self.selector = selector

    def launch(self):
        d = torch.zeros(32, self.arrays[2].shape[1], dtype=torch.uint32)
        counts = [d.shape[1], *(x.shape[1] for x in self.arrays[:3])]
        tensors = [d, *(torch.from_numpy(x) for x in self.arrays)]
        report = launch(kernel(self.opcode, counts, self.selector), "k", 1, 32, tensors, target="sm_90a")
        return d.numpy().view(self.dtype), report

    def check(self):
        raw, report = self.launch()
        assert report.ok, str(report)
        for index, place in enumerate(self.places):
            np.testing.assert_array_equal(raw[:, index], self.expected[place].astype(self.dtype))


CASES = [
    *(("f16", "f16", 16, acc, selector) for acc in ("f32", "f16") for selector in range(4)),
    *(("f16", "f16", 32, acc, selector) for acc in ("f32", "f16") for selector in range(2)),
    ("bf16", "bf16", 16, "f32", 1), ("bf16", "bf16", 32, "f32", 1),
    *(("tf32", "tf32", 8, "f32", selector) for selector in range(4)),
    ("tf32", "tf32", 16, "f32", 0), ("tf32", "tf32", 16, "f32", 1),
    *((a, b, 64, "f32", 0) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *((a, b, 32, "s32", 1) for a in ("s8", "u8") for b in ("s8", "u8")),
    *((a, b, 64, "s32", 0) for a in ("s8", "u8") for b in ("s8", "u8")),
    *((a, b, 64, "s32", 1) for a in ("s4", "u4") for b in ("s4", "u4")),
    *((a, b, 128, "s32", 0) for a in ("s4", "u4") for b in ("s4", "u4")),
]  # fmt: skip


@pytest.mark.parametrize(("a_kind", "b_kind", "depth", "acc", "selector"), CASES)
def test_types(a_kind, b_kind, depth, acc, selector):
    Case(a_kind, b_kind, depth, acc, selector).check()


@pytest.mark.parametrize(("kind", "depth", "acc"), [("f16", 32, "f32"), ("s8", 64, "s32"), ("s4", 128, "s32")])
def test_indices_in_any_order(kind, depth, acc):
    Case(kind, kind, depth, acc, ordered=False).check()


def test_saturation():
    case = Case("u8", "u8", 64, "s32", extra=".satfinite")
    case.arrays[2][:] = np.int32(2**31 - 5)
    raw, report = case.launch()
    assert report.ok, str(report)
    assert (raw == 2**31 - 1).all()


def test_an_element_that_is_left_out_meets_nothing():
    """A zero that is not stored is not multiplied: NaN in B does not come through."""
    case = Case("f16", "f16", 16, "f32")
    case.arrays[3][:] = 0x44444444  # elements 0 and 1 of four
    case.arrays[1][:] = np.where(T[:, None] % 2 == 0, case.arrays[1], np.uint32(0x7FFF7FFF))
    raw, report = case.launch()
    assert report.ok
    assert np.isfinite(raw).all()
    case.arrays[3][:] = 0x48484848  # elements 0 and 2, then 0 and 1
    raw, report = case.launch()
    assert np.isnan(raw).all()


@pytest.mark.parametrize(
    ("kind", "depth", "acc", "ordered", "bits", "why"),
    [
        ("f16", 32, "f32", False, 0x44445444, "the two indices in four bits must differ"),
        ("s8", 64, "s32", True, 0x44441444, "the two indices in four bits must ascend"),
        ("tf32", 16, "f32", True, 0x4444E4F4, "four bits are 0b0100 or 0b1110"),
    ],
)
def test_invalid_metadata_is_a_finding(kind, depth, acc, ordered, bits, why):
    case = Case(kind, kind, depth, acc, ordered=ordered)
    case.arrays[3][12] = bits
    _, report = case.launch()
    assert [f.kind for f in report.findings] == ["illegal"]
    assert why in report.findings[0].message
    assert report.findings[0].lane == 12


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        ("m16n8k32.row.col.f32.f16.bf16.f32", "no sparse mma takes together"),
        ("m16n8k64.row.col.f16.e4m3.e4m3.f16", "no sparse mma takes together"),
        ("m16n8k32.row.col.f32.e4m3.e4m3.f32", "sparse e4m3 takes m16n8k64"),
        ("m16n8k8.row.col.f32.f16.f16.f32", "sparse f16 takes m16n8k16 and m16n8k32"),
        ("m16n8k32.row.col.satfinite.f32.f16.f16.f32", "needs s32 accumulators"),
        ("m16n8k32.row.row.f32.f16.f16.f32", "takes .col"),
    ],
)
def test_refused_spellings(tail, why):
    with pytest.raises(UnsupportedInstruction, match=why):
        launch(kernel(f"mma.sp.sync.aligned.{tail}", (4, 4, 4, 4), 0), "k", 1, 32, [], target="sm_90a")


@pytest.mark.parametrize(
    ("tail", "selector", "why"),
    [
        ("m16n8k32.row.col.f32.f16.f16.f32", 2, "2 is not one of 0 to 1"),
        ("m16n8k64.row.col.s32.s8.s8.s32", 1, "1 is not 0"),
        ("m16n8k64.row.col.s32.s8.s8.s32", "%e0", "'%e0' is not an integer literal"),
    ],
)
def test_refused_selectors(tail, selector, why):
    with pytest.raises(PtxSyntaxError, match=why):
        launch(kernel(f"mma.sp.sync.aligned.{tail}", (4, 4, 4, 4), selector), "k", 1, 32, [], target="sm_90a")


def test_fp8_needs_a_newer_architecture():
    ptx = kernel("mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32", (4, 4, 4, 4), 0).replace("sm_90a", "sm_80")
    with pytest.raises(UnsupportedInstruction, match="needs sm_89 or newer"):
        launch(ptx, "k", 1, 32, [], target="sm_80")
