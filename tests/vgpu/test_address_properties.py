"""Random addresses: ldmatrix and stmatrix, bank conflicts and sectors, against formulas written independently."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright import vgpu

SHARED = 8192
WIDTHS = {1: "u8", 2: "u16", 4: "u32", 8: "v2.u32", 16: "v4.u32"}
REGISTERS = {1: "%r0", 2: "%h0", 4: "%r0", 8: "{%r0, %r1}", 16: "{%r0, %r1, %r2, %r3}"}
HEAD = """
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pimage, .param .u64 poffsets, .param .u64 pout, .param .u32 plive)
{
.shared .align 1024 .b8 tile[8192];
.reg .b32 %r<16>, %t, %x, %live, %bit;
.reg .b16 %h<2>;
.reg .b64 %image, %offsets, %out, %o;
.reg .pred %p<4>;
mov.u32 %t, %tid.x;
ld.param.u64 %image, [pimage];
ld.param.u64 %offsets, [poffsets];
ld.param.u64 %out, [pout];
ld.param.u32 %live, [plive];
mad.wide.u32 %o, %t, 4, %offsets;
ld.global.u32 %r15, [%o];
mul.wide.u32 %o, %t, 16;
add.s64 %image, %image, %o;
mov.u32 %x, tile;
add.u32 %r15, %r15, %x;
mad.lo.u32 %x, %t, 16, %x;
mov.u32 %r8, 0;
FILL:
ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%image];
st.shared.v4.u32 [%x], {%r0, %r1, %r2, %r3};
add.s64 %image, %image, 512;
add.u32 %x, %x, 512;
add.u32 %r8, %r8, 512;
setp.lt.u32 %p2, %r8, 8192;
@%p2 bra FILL;
bar.warp.sync -1;
mov.u32 %bit, 1;
shl.b32 %bit, %bit, %t;
and.b32 %bit, %bit, %live;
setp.ne.u32 %p1, %bit, 0;
mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;
"""
TAIL = """
mad.wide.u32 %o, %t, 16, %out;
st.global.v4.u32 [%o], {%r4, %r5, %r6, %r7};
ret;
}"""
GLOBAL = HEAD.replace("bar.warp.sync -1;", "ld.param.u64 %image, [pimage]; sub.u32 %r15, %r15, tile;")
IMAGE = np.random.default_rng(0).integers(0, 256, SHARED + 64).astype(np.uint8)
IMAGE = IMAGE[-IMAGE.ctypes.data % 32 :][:SHARED]
rows = st.lists(st.integers(0, SHARED // 16 - 1), min_size=32, max_size=32).map(lambda v: [16 * x for x in v])
lanes = st.integers(1, 2**32 - 1)


def launch(ptx, offsets, out, live=2**32 - 1, **options):
    args = [IMAGE, np.array(offsets, np.uint32), out, live]
    report = vgpu.launch(ptx, "k", 1, 32, args, target="sm_90a", threads=1, **options)
    assert report.ok, str(report)
    return report


@settings(max_examples=60, deadline=None)
@given(rows, st.sampled_from([1, 2, 4]), st.booleans())
def test_ldmatrix(offsets, count, transposed):
    registers = ", ".join(f"%r{4 + k}" for k in range(count))
    opcode = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    out = np.zeros((32, 4), np.uint32)
    launch(f"{HEAD}{opcode} {{{registers}}}, [%r15];{TAIL}", offsets, out)
    for matrix in range(count):  # lanes 8 i to 8 i + 7 name the rows of matrix i (PTX ISA, ldmatrix)
        starts = offsets[8 * matrix : 8 * matrix + 8]
        halves = np.stack([IMAGE[s : s + 16].view(np.uint16) for s in starts])
        halves = halves.T if transposed else halves
        for lane in range(32):
            low, high = halves[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
            assert out[lane, matrix] == int(low) | int(high) << 16
    assert not out[:, count:].any()


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(32)), st.integers(0, 15), st.sampled_from([1, 2, 4]), st.booleans())
def test_stmatrix(order, first, count, transposed):
    """What ldmatrix reads at other rows, stmatrix puts there; the other bytes stay."""
    offsets = [16 * (32 * first + place) for place in order]
    registers = ", ".join(f"%r{9 + k}" for k in range(count))
    opcode = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    values = "".join(
        f"mad.lo.u32 %r{k}, %t, 2, {1 + 256 * (k - 9)}; shl.b32 %r8, %r{k}, 16; or.b32 %r{k}, %r{k}, %r8;"
        f"add.u32 %r{k}, %r{k}, 0x10000;"
        for k in range(9, 9 + count)
    )
    read = "bar.warp.sync -1; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r15];"
    out = np.zeros((32, 4), np.uint32)
    launch(f"{HEAD}{values}{opcode} [%r15], {{{registers}}};{read}{TAIL}", offsets, out)
    for matrix in range(count):
        first_half = np.arange(32).reshape(8, 4) * 2 + 1 + 256 * matrix
        halves = np.stack([first_half, first_half + 1], -1).reshape(8, 8)
        halves = halves.T if transposed else halves
        np.testing.assert_array_equal(out[8 * matrix : 8 * matrix + 8].view(np.uint16), halves)
    for lane in range(8 * count, 32):
        assert out[lane].tobytes() == IMAGE[offsets[lane] : offsets[lane] + 16].tobytes()


def wavefronts(offsets, width, live):
    """32 banks of 4 bytes; 128 bytes of lanes a pass; each distinct word of a bank takes one more turn."""
    passes, total = {1: 1, 2: 1, 4: 1, 8: 2, 16: 4}[width], 0
    for part in np.array_split(np.arange(32), passes):
        words = {w for lane in part if live >> int(lane) & 1
                 for w in range(offsets[lane] // 4, (offsets[lane] + width - 1) // 4 + 1)}  # fmt: skip
        banks = np.bincount([w % 32 for w in words], minlength=32) if words else np.zeros(1, int)
        total += int(banks.max())
    return total


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 255), min_size=32, max_size=32), st.sampled_from(sorted(WIDTHS)), st.integers(0, 3), lanes
)
def test_bank_conflicts(units, width, spread, live):
    offsets = [unit * width * 2**spread % SHARED for unit in units]
    body = f"@%p1 ld.shared.{WIDTHS[width]} {REGISTERS[width]}, [%r15];"
    report = launch(HEAD + body + TAIL, offsets, np.zeros((32, 4), np.uint32), live, checks=("banks",))
    (line,) = [h for h in report.hot if h.ptx.startswith("@%p1 ld.shared")]
    assert line.wavefronts == wavefronts(offsets, width, live)
    busy = sum(bool(live & mask) for mask in lane_groups(width))
    assert line.conflicts == line.wavefronts - busy


def lane_groups(width):
    size = {8: 16, 16: 8}.get(width, 32)
    return [((1 << size) - 1) << first for first in range(0, 32, size)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 255), min_size=32, max_size=32), st.sampled_from(sorted(WIDTHS)), lanes)
def test_sectors(units, width, live):
    offsets = [unit * width for unit in units]
    load = f"@%p1 ld.global.{WIDTHS[width]} {REGISTERS[width]}, [%image];"
    body = f"cvt.u64.u32 %o, %r15; add.s64 %image, %image, %o;\n{load}"
    report = launch(GLOBAL + body + TAIL, offsets, np.zeros((32, 4), np.uint32), live, checks=("sectors",))
    (line,) = [h for h in report.hot if h.ptx.startswith("@%p1 ld.global")]
    touched = {offset // 32 for lane, offset in enumerate(offsets) if live >> lane & 1}
    assert (line.requests, line.sectors) == (1, len(touched))
