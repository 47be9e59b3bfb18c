"""wgmma: shapes, types, layouts and descriptors against matrix products, with the layouts of the PTX ISA."""

import numpy as np
import pytest
import torch

from tilewright.vgpu import launch
from tilewright.vgpu.errors import UnsupportedInstruction

SHARED = 65536
B_AT = 32768  # shared offset of B
DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32,
    "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "s8": torch.int8, "u8": torch.uint8,
}  # fmt: skip
SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
SPANS = {"none": 0, "32": 32, "64": 64, "128": 128}
CODES = {"none": 0, "128": 1, "64": 2, "32": 3}


def coded(values, kind):
    """Bytes of the elements, last axis kept contiguous: [..., element size]."""
    tensor = torch.from_numpy(np.asarray(values)).to(DTYPES[kind])
    return tensor.contiguous().view(torch.uint8).numpy().reshape(*np.shape(values), SIZES[kind])


def swizzled(address, span):
    if span == 0:
        return address
    line, unit = address // 128, address % 128 // 16
    return line * 128 + (unit ^ (line % (span // 16))) * 16 + address % 16


def place(image, start, elements, span, lbo, sbo, mn_major):
    """Writes elements [mn, k, size] as the descriptor (start, lbo, sbo, swizzle) addresses them."""
    rows, depth, size = elements.shape
    for mn in range(rows):
        for k in range(depth):
            if mn_major and span:
                per = span // size
                at = mn // per * lbo + k // 8 * sbo + k % 8 * span + mn % per * size
            elif mn_major:
                at = mn // 8 * sbo + k // 8 * lbo + k % 8 * 16 + mn % 8 * size
            elif span:
                at = mn // 8 * sbo + mn % 8 * span + k * size
            else:
                at = mn // 8 * sbo + mn % 8 * 16 + k * size // 16 * lbo + k * size % 16
            at = swizzled(start + at, span)
            image[at : at + size] = elements[mn, k]


def descriptor(start, lbo, sbo, swizzle):
    return (start >> 4) | (lbo >> 4) << 16 | (sbo >> 4) << 32 | CODES[swizzle] << 62


def strides(swizzle, rows, mn_major):
    """Leading and stride byte offsets of a dense tile."""
    span = SPANS[swizzle]
    if mn_major:
        return (16 * span, 8 * span) if span else (128, 256)
    return (0, 8 * span) if span else (rows * 16, 128)


def kernel(
    opcode,
    tail,
    registers,
    a_in_registers=False,
    fence="fence.proxy.async;",
    wait="wgmma.wait_group.sync.aligned 0;",
    arrive="wgmma.fence.sync.aligned;",
    repeat=1,
):
    """Copies the image into shared memory, loads old D, runs `repeat` times the wgmma, stores D."""
    old = "\n".join(f"ld.global.b32 %d{i}, [%d+{4 * i}];" for i in range(registers))
    new = "\n".join(f"st.global.b32 [%d+{4 * i}], %d{i};" for i in range(registers))
    a = "{%a0, %a1, %a2, %a3}" if a_in_registers else "%da"
    d = ", ".join(f"%d{i}" for i in range(registers))
    fragments = "\n".join(f"ld.global.b32 %a{i}, [%fa+{4 * i}];" for i in range(4)) if a_in_registers else ""
    product = f"wgmma.mma_async.sync.aligned.{opcode} {{{d}}}, {a}, %db, %p1{tail};"
    return f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pimage, .param .u64 pfa, .param .u64 pd, .param .u64 pda, .param .u64 pdb,
    .param .u32 pscale)
{{
.shared .align 1024 .b8 tile[{SHARED}];
.reg .b32 %d<{registers}>, %a<4>, %r<4>, %t, %i, %x, %scale, %n;
.reg .b64 %image, %fa, %d, %da, %db, %o;
.reg .pred %p<4>;
mov.u32 %t, %tid.x;
ld.param.u64 %image, [pimage];
ld.param.u64 %fa, [pfa];
ld.param.u64 %d, [pd];
ld.param.u64 %da, [pda];
ld.param.u64 %db, [pdb];
ld.param.u32 %scale, [pscale];
setp.ne.u32 %p1, %scale, 0;
mul.wide.u32 %o, %t, {4 * registers};
add.s64 %d, %d, %o;
mul.wide.u32 %o, %t, 16;
add.s64 %fa, %fa, %o;
add.s64 %image, %image, %o;
mov.u32 %x, tile;
shr.u32 %n, %x, 4;
cvt.u64.u32 %o, %n;
add.s64 %da, %da, %o;
add.s64 %db, %db, %o;
mad.lo.u32 %x, %t, 16, %x;
mov.u32 %i, 0;
FILL:
ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%image];
st.shared.v4.b32 [%x], {{%r0, %r1, %r2, %r3}};
add.s64 %image, %image, 2048;
add.u32 %x, %x, 2048;
add.u32 %i, %i, 2048;
setp.lt.u32 %p2, %i, {SHARED};
@%p2 bra FILL;
{fragments}
{old}
{fence}
bar.sync 0;
{arrive}
{product * repeat}
wgmma.commit_group.sync.aligned;
{wait}
{new}
ret;
}}"""


def accumulator_places(columns):
    """(warp lane, register) -> row and column: row 16 w + g (+ 8), columns 8 j + 2 t, + 1."""
    rows, cols = np.zeros((128, columns // 2), int), np.zeros((128, columns // 2), int)
    for thread in range(128):
        w, g, t = thread // 32, thread % 32 // 4, thread % 4
        for i in range(columns // 2):
            rows[thread, i] = 16 * w + g + 8 * (i // 2 % 2)
            cols[thread, i] = 8 * (i // 4) + 2 * t + i % 2
    return rows, cols


def a_fragments(codes):
    """Registers of A [64, k, size]: rows g and g + 8, then the next 16 bytes of k."""
    line = codes.reshape(64, 32)
    out = np.zeros((128, 4, 4), np.uint8)
    for thread in range(128):
        w, g, t = thread // 32, thread % 32 // 4, thread % 4
        for i in range(4):
            out[thread, i] = line[16 * w + g + 8 * (i % 2), 16 * (i // 2) + 4 * t :][:4]
    return out


def sample(rng, shape, kind):
    if kind in ("s8", "u8"):
        return rng.integers(0 if kind == "u8" else -128, 256 if kind == "u8" else 128, size=shape)
    return rng.integers(-8, 9, size=shape) / 4.0


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
