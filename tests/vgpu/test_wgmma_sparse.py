"""wgmma.mma_async.sp: kept elements of A in shared memory or registers, against the product of the dense matrix."""

import numpy as np
import pytest
import torch
from sparse_operands import choose, metadata
from wgmma_operands import (
    B_AT,
    SHARED,
    SIZES,
    SPANS,
    a_fragments,
    accumulator_places,
    coded,
    descriptor,
    kernel,
    place,
    sample,
    strides,
)

from tilewright.vgpu import launch
from tilewright.vgpu.errors import PtxSyntaxError, UnsupportedInstruction

HALF_TAIL = ", 1, 1, 0, 0"


class Case:
    """Operands of one spelling, their image in shared memory and the dense product."""

    def __init__(self, n, a_kind, b_kind=None, acc="f32", a_swizzle="32", b_swizzle="64", a_mn=False, b_mn=False,
                 a_registers=False, selector=0, scale_d=1):  # fmt: skip
        b_kind = b_kind or a_kind
        rng = np.random.default_rng(n + selector)
        depth = 64 // SIZES[a_kind]
        nibbles, kept = choose(rng, a_kind, 64, depth)
        values, b = sample(rng, (64, depth // 2), a_kind), sample(rng, (depth, n), b_kind)
        dense = np.zeros((64, depth))
        np.put_along_axis(dense, kept, values, 1)
        self.acc, self.n = acc, n
        old = rng.integers(-9, 10, size=(64, n))
        self.expected = dense @ b + (old if scale_d else 0)
        image = np.zeros(SHARED, np.uint8)
        lbo_a, sbo_a = strides(a_swizzle, 64, a_mn)
        lbo_b, sbo_b = strides(b_swizzle, n, b_mn)
        if b_mn and b_swizzle == "none":
            lbo_b, sbo_b = 128, 512  # four groups of k
        elif b_mn:
            lbo_b = 32 * SPANS[b_swizzle]
        place(image, 0, coded(values, a_kind), SPANS[a_swizzle], lbo_a, sbo_a, a_mn)
        place(image, B_AT, coded(b.T, b_kind), SPANS[b_swizzle], lbo_b, sbo_b, b_mn)
        fragments = a_fragments(coded(values, a_kind)) if a_registers else np.zeros((128, 4, 4), np.uint8)
        words = [metadata(nibbles[16 * warp :][:16], a_kind, selector) for warp in range(4)]
        extra = np.concatenate([fragments.reshape(-1), np.concatenate(words).view(np.uint8)])
        self.d = torch.from_numpy(self.pack(old))
        self.args = [
            torch.from_numpy(image), torch.from_numpy(extra), self.d, descriptor(0, lbo_a, sbo_a, a_swizzle),
            descriptor(B_AT, lbo_b, sbo_b, b_swizzle), scale_d,
        ]  # fmt: skip
        self.opcode = f"m64n{n}k{depth}.{acc}.{a_kind}.{b_kind}"
        self.options = {"a_in_registers": a_registers, "selector": selector}

    def pack(self, matrix):
        values = matrix[accumulator_places(self.n)]
        if self.acc == "f16":
            return values.astype(np.float16).view(np.uint32).view(np.int32)
        return values.astype(np.int32 if self.acc == "s32" else np.float32).view(np.int32)

    def run(self, tail, mode="eager"):
        ptx = kernel(self.opcode, tail, self.d.shape[1], **self.options)
        return launch(ptx, "k", 1, 128, self.args, target="sm_90a", mode=mode, checks=("race",))

    def check(self, tail, mode="eager"):
        report = self.run(tail, mode)
        assert report.ok, str(report)
        dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[self.acc]
        expected = self.expected[accumulator_places(self.n)].astype(dtype)
        np.testing.assert_array_equal(self.d.numpy().view(dtype), expected)


TYPES = [
    ("f16", "f16", "f32", HALF_TAIL), ("f16", "f16", "f16", HALF_TAIL), ("bf16", "bf16", "f32", HALF_TAIL),
    ("tf32", "tf32", "f32", ", 1, 1"), *((a, b, "f32", ", 1, 1") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    ("e4m3", "e5m2", "f16", ", 1, 1"), *((a, b, "s32", "") for a in ("s8", "u8") for b in ("s8", "u8")),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize(("a_kind", "b_kind", "acc", "tail"), TYPES)
@pytest.mark.parametrize("a_registers", [False, True])
def test_types(a_kind, b_kind, acc, tail, mode, a_registers):
    if a_registers and tail == HALF_TAIL:
        tail = ", 1, 1, 0"
    Case(32, a_kind, b_kind, acc, a_registers=a_registers).check(tail, mode)


@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_the_other_pair_of_lanes_holds_the_metadata(kind):
    Case(16, kind, selector=1).check(HALF_TAIL if kind == "f16" else ", 1, 1")


@pytest.mark.parametrize("n", [8, 24, 128, 256])
def test_columns(n):
    Case(n, "f16").check(HALF_TAIL)


@pytest.mark.parametrize(("a_swizzle", "b_swizzle"), [("none", "none"), ("64", "128"), ("128", "64")])
@pytest.mark.parametrize(("a_mn", "b_mn"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_layouts(a_swizzle, b_swizzle, a_mn, b_mn):
    case = Case(64, "bf16", a_swizzle=a_swizzle, b_swizzle=b_swizzle, a_mn=a_mn, b_mn=b_mn)
    case.check(f", 1, 1, {a_mn}, {b_mn}")


def test_scale_d_false_and_a_negated_operand():
    case = Case(16, "f16", scale_d=0)
    case.expected = -case.expected
    case.check(", -1, 1, 0, 0")


def test_metadata_that_means_nothing():
    case = Case(16, "f16")
    case.args[1].view(torch.int32)[512 + 4] = 0x44445444
    report = case.run(HALF_TAIL)
    assert "the two indices in four bits must differ" in report.findings[0].message
    assert report.findings[0].lane == 4


def test_rows_of_b_that_no_descriptor_reaches():
    report = Case(16, "f16", b_swizzle="32").run(HALF_TAIL)
    assert [f.kind for f in report.findings] == ["illegal"]
    assert "K-major B with 32-byte swizzle in a sparse wgmma" in report.findings[0].message


@pytest.mark.parametrize(
    ("opcode", "tail", "selector", "error", "why"),
    [
        ("m64n16k16.f32.f16.f16", HALF_TAIL, 0, UnsupportedInstruction, "f16 takes m64nNk32"),
        ("m64n16k64.f32.e4m3.e5m2", ", 1, 1", 1, PtxSyntaxError, "1 is not 0"),
        ("m64n16k32.f32.f16.f16", HALF_TAIL, 2, PtxSyntaxError, "2 is not one of 0 to 1"),
        ("m64n16k32.f32.f16.f16", ", 1, 1", 0, UnsupportedInstruction, "has 8 operands where it takes 10"),
    ],
)
def test_refused_spellings(opcode, tail, selector, error, why):
    with pytest.raises(error, match=why):
        launch(kernel(opcode, tail, 8, selector=selector), "k", 1, 128, [], target="sm_90a")
