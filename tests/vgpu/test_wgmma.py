"""wgmma: shapes, types, layouts and descriptors against matrix products, with the layouts of the PTX ISA."""

import numpy as np
import pytest
import torch
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
from tilewright.vgpu.errors import UnsupportedInstruction


class Case:
    """Operands, their image in shared memory, and the arguments of a launch."""

    def __init__(self, n, a_kind, b_kind=None, acc="f32", a_swizzle="128", b_swizzle="128", a_mn=False, b_mn=False,
                 a_registers=False, k_step=0, scale_d=1, seed=0):  # fmt: skip
        b_kind = b_kind or a_kind
        rng = np.random.default_rng(seed + n)
        depth = 32 // SIZES[a_kind]
        self.acc, self.n = acc, n
        self.a, self.b = sample(rng, (64, depth), a_kind), sample(rng, (depth, n), b_kind)
        self.old = rng.integers(-9, 10, size=(64, n))
        image = np.zeros(SHARED, np.uint8)
        lbo_a, sbo_a = strides(a_swizzle, 64, a_mn)
        lbo_b, sbo_b = strides(b_swizzle, n, b_mn)
        start_a, start_b = 32 * k_step, B_AT + 32 * k_step
        place(image, start_a, coded(self.a, a_kind), SPANS[a_swizzle], lbo_a, sbo_a, a_mn)
        place(image, start_b, coded(self.b.T, b_kind), SPANS[b_swizzle], lbo_b, sbo_b, b_mn)
        fragments = a_fragments(coded(self.a, a_kind)) if a_registers else np.zeros(4, np.uint8)
        self.scale_d = scale_d
        self.d = torch.from_numpy(self.pack(self.old))
        self.args = [
            torch.from_numpy(image), torch.from_numpy(fragments), self.d,
            descriptor(start_a, lbo_a, sbo_a, a_swizzle), descriptor(start_b, lbo_b, sbo_b, b_swizzle), scale_d,
        ]  # fmt: skip
        size = f"m64n{n}k{depth}"
        self.opcode = f"{size}.{acc}.{a_kind}.{b_kind}"
        self.registers = self.d.shape[1]

    def pack(self, matrix):
        values = matrix[accumulator_places(self.n)]
        if self.acc == "f16":
            return values.astype(np.float16).view(np.uint32).view(np.int32)
        return values.astype(np.int32 if self.acc == "s32" else np.float32).view(np.int32)

    def result(self):
        raw = self.d.numpy()
        values = raw if self.acc == "s32" else raw.view(np.float16 if self.acc == "f16" else np.float32)
        out = np.zeros((64, self.n))
        out[accumulator_places(self.n)] = values
        return out

    def expected(self, sign=1, repeat=1):
        product = self.a.astype(np.float64) @ self.b * sign * repeat
        return product + self.old if self.scale_d else product

    def run(self, ptx, mode="eager"):
        return launch(ptx, "k", 1, 128, self.args, target="sm_90a", mode=mode)


def check(case, tail, mode="eager", a_registers=False, sign=1):
    report = case.run(kernel(case.opcode, tail, case.registers, a_registers), mode)
    assert report.ok, str(report)
    expected = case.expected(sign)
    if case.acc == "f16":
        expected = expected.astype(np.float16).astype(np.float64)
    np.testing.assert_array_equal(case.result(), expected)


HALF_TAIL = ", 1, 1, 0, 0"


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("n", [8, 16, 24, 64, 128, 136, 256])
@pytest.mark.parametrize("acc", ["f32", "f16"])
def test_columns(n, acc, mode):
    check(Case(n, "f16", acc=acc), HALF_TAIL, mode)


TYPES = [
    ("bf16", "bf16", "f32", HALF_TAIL), ("tf32", "tf32", "f32", ", 1, 1"), ("e4m3", "e4m3", "f32", ", 1, 1"),
    ("e4m3", "e5m2", "f16", ", 1, 1"), ("e5m2", "e4m3", "f32", ", 1, 1"), ("e5m2", "e5m2", "f32", ", 1, 1"),
    ("s8", "s8", "s32", ""), ("s8", "u8", "s32", ""), ("u8", "s8", "s32", ""), ("u8", "u8", "s32", ""),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize(("a_kind", "b_kind", "acc", "tail"), TYPES)
def test_types(a_kind, b_kind, acc, tail, mode):
    check(Case(32, a_kind, b_kind, acc), tail, mode)


@pytest.mark.parametrize("swizzle", ["none", "32", "64", "128"])
@pytest.mark.parametrize(("a_mn", "b_mn"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_layouts(swizzle, a_mn, b_mn):
    case = Case(128, "f16", a_swizzle=swizzle, b_swizzle=swizzle, a_mn=a_mn, b_mn=b_mn)
    check(case, f", 1, 1, {a_mn}, {b_mn}")


@pytest.mark.parametrize(("swizzle", "steps"), [("64", 2), ("128", 4)])
def test_steps_of_k_inside_a_swizzled_row(swizzle, steps):
    for step in range(steps):
        check(Case(64, "bf16", a_swizzle=swizzle, b_swizzle=swizzle, k_step=step), HALF_TAIL)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize(
    ("kind", "acc", "tail"), [("f16", "f32", ", 1, 1, 1"), ("e4m3", "f32", ", 1, 1"), ("s8", "s32", "")]
)
def test_a_in_registers(kind, acc, tail, mode):
    case = Case(64, kind, acc=acc, a_registers=True, b_mn=kind == "f16")
    check(case, tail, mode, a_registers=True)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_scale_d_false_ignores_the_old_value(mode):
    case = Case(64, "f16", scale_d=0)
    check(case, HALF_TAIL, mode)


@pytest.mark.parametrize(("signs", "sign"), [("-1, 1", -1), ("1, -1", -1), ("-1, -1", 1)])
def test_negated_operands(signs, sign):
    check(Case(16, "f16"), f", {signs}, 0, 0", sign=sign)


@pytest.mark.parametrize("saturate", [True, False])
def test_integer_overflow(saturate):
    case = Case(16, "u8", "u8", "s32")
    case.d.fill_(2**31 - 10)
    opcode = case.opcode.replace(".s32", ".satfinite.s32") if saturate else case.opcode
    report = case.run(kernel(opcode, "", case.registers))
    assert report.ok, str(report)
    exact = case.a @ case.b + 2**31 - 10
    wrapped = exact.astype(np.uint32).view(np.int32) if exact.dtype == np.uint32 else exact.astype(np.int64)
    expected = np.minimum(wrapped, 2**31 - 1) if saturate else (wrapped + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(case.result(), expected)


@pytest.mark.parametrize("mode", ["eager", "lazy", "skew", "random"])
def test_a_group_of_several(mode):
    case = Case(64, "f16")
    report = case.run(kernel(case.opcode, HALF_TAIL, case.registers, repeat=3), mode)
    assert report.ok, str(report)
    np.testing.assert_array_equal(case.result(), case.expected(repeat=3))


def findings(case, mode="eager", **edits):
    report = case.run(kernel(case.opcode, HALF_TAIL, case.registers, **edits), mode)
    return [(f.kind, f.message) for f in report.findings]


def test_reading_accumulators_before_the_wait():
    case = Case(16, "f16")
    found = findings(case, "lazy", wait="")
    assert [kind for kind, _ in found] == ["unfinished-work"]
    np.testing.assert_array_equal(case.result(), case.old)


def test_a_wait_for_the_wrong_group():
    case = Case(16, "f16")
    findings(case, "lazy", wait="wgmma.wait_group.sync.aligned 1;")
    np.testing.assert_array_equal(case.result(), case.old)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_missing_proxy_fence(mode):
    assert "proxy-fence" in {kind for kind, _ in findings(Case(16, "f16"), mode, fence="")}


def test_a_missing_wgmma_fence():
    found = findings(Case(16, "f16"), arrive="")
    assert "before any wgmma.fence" in found[0][1]


def test_descriptors_beyond_shared_memory():
    case = Case(16, "f16")
    case.args[4] = descriptor(SHARED - 64, 0, 1024, "128")
    assert "out-of-bounds" in {kind for kind, _ in findings(case)}


def test_base_offset():
    case = Case(16, "f16")
    case.args[3] |= 1 << 49
    assert "base offset 1" in findings(case)[0][1]


def test_a_lone_warp():
    case = Case(16, "f16")
    report = launch(kernel(case.opcode, HALF_TAIL, case.registers), "k", 1, 32, case.args, target="sm_90a")
    assert "fewer than four warps" in report.findings[0].message


@pytest.mark.parametrize(
    ("opcode", "tail", "why"),
    [
        ("m64n12k16.f32.f16.f16", HALF_TAIL, "m64nNk16 with N = 8 to 256"),
        ("m64n40k32.s32.s8.s8", "", "m64nNk32"),
        ("m64n16k32.f32.f16.f16", HALF_TAIL, "m64nNk16"),
        ("m64n16k16.f32.f16.bf16", HALF_TAIL, "no wgmma takes together"),
        ("m64n16k16.f32.f16.f16", ", 1, 1", "has 6 operands where it takes 8"),
        ("m64n16k16.satfinite.f32.f16.f16", HALF_TAIL, "needs s32 accumulators"),
    ],
)
def test_refused_spellings(opcode, tail, why):
    with pytest.raises(UnsupportedInstruction, match=why):
        launch(kernel(opcode, tail, 8), "k", 1, 128, [], target="sm_90a")
