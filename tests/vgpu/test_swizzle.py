"""Addresses of swizzled operands: random strides and starts of wgmma descriptors against an independent formula."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.vgpu import launch

BYTES = 16384
B_AT = 8192
SWIZZLE_CODE = {0: 0, 32: 3, 64: 2, 128: 1}

KERNEL = f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pimage, .param .u64 pout, .param .u64 pda, .param .u64 pdb)
{{
.shared .align 1024 .b8 tile[{BYTES}];
.reg .b32 %f<4>, %r<4>, %t, %i, %x;
.reg .b64 %image, %out, %da, %db, %o;
.reg .pred %p<3>;
mov.u32 %t, %tid.x;
ld.param.u64 %image, [pimage];
ld.param.u64 %out, [pout];
ld.param.u64 %da, [pda];
ld.param.u64 %db, [pdb];
mul.wide.u32 %o, %t, 16;
add.s64 %image, %image, %o;
add.s64 %out, %out, %o;
mov.u32 %x, tile;
shr.u32 %i, %x, 4;
cvt.u64.u32 %o, %i;
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
setp.lt.u32 %p2, %i, {BYTES};
@%p2 bra FILL;
fence.proxy.async;
bar.sync 0;
setp.ne.u32 %p1, %t, %t;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, %f3}}, %da, %db, %p1, 1, 1, TA, TB;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
st.global.v4.b32 [%out], {{%f0, %f1, %f2, %f3}};
ret;
}}"""


def unit_address(start, span, lbo, sbo, mn_major, major_unit, line):
    """Address of 16 bytes, the `major_unit`-th along the contiguous direction (PTX ISA, matrix layouts of wgmma)."""
    group, inside = divmod(line, 8)
    if span == 0:
        # Core matrices of 8 rows by 16 bytes. K-major: LBO steps along k, SBO along mn; MN-major: the other way.
        return start + inside * 16 + (major_unit * sbo + group * lbo if mn_major else major_unit * lbo + group * sbo)
    atom, unit = divmod(major_unit, span // 16)
    address = start + group * sbo + inside * span + unit * 16 + (atom * lbo if mn_major else 0)
    return address ^ (address // 128 % (span // 16)) * 16


def read(image, start, span, lbo, sbo, mn_major, rows):
    """Matrix [rows, 16] of bfloat16 that the descriptor names."""
    halves = image.view(np.uint16)
    out = np.zeros((rows, 16), np.uint16)
    lines, units = (16, rows // 8) if mn_major else (rows, 2)
    for line in range(lines):
        for unit in range(units):
            at = unit_address(start, span, lbo, sbo, mn_major, unit, line) // 2
            piece = slice(8 * unit, 8 * unit + 8)
            if mn_major:
                out[piece, line] = halves[at : at + 8]
            else:
                out[line, piece] = halves[at : at + 8]
    return (out.astype(np.uint32) << 16).view(np.float32)


operand = st.fixed_dictionaries(
    {
        "span": st.sampled_from([0, 32, 64, 128]),
        "lbo": st.integers(0, 50).map(lambda n: 16 * n),
        "sbo": st.integers(0, 50).map(lambda n: 16 * n),
        "mn_major": st.booleans(),
        "start": st.integers(0, 60).map(lambda n: 16 * n),
    }
)


def descriptor(o):
    return o["start"] >> 4 | (o["lbo"] >> 4) << 16 | (o["sbo"] >> 4) << 32 | SWIZZLE_CODE[o["span"]] << 62


@settings(max_examples=80, deadline=None)
@given(operand, operand, st.sampled_from(["eager", "lazy"]))
def test_descriptor_addresses(a, b, mode):
    b = dict(b, start=b["start"] + B_AT)
    image = (np.random.default_rng(0).integers(-4, 5, size=BYTES // 2).astype(np.float32).view(np.uint32) >> 16).astype(
        np.uint16
    )
    matrix_a = read(image, rows=64, **a)
    matrix_b = read(image, rows=8, **b)
    out = torch.zeros(128, 4)
    ptx = KERNEL.replace("TA", str(int(a["mn_major"]))).replace("TB", str(int(b["mn_major"])))
    args = [torch.from_numpy(image), out, descriptor(a), descriptor(b)]
    report = launch(ptx, "k", 1, 128, args, target="sm_90a", mode=mode)
    assert report.ok, str(report)
    thread, register = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (register // 2)
    column = thread % 4 * 2 + register % 2
    np.testing.assert_array_equal(out.numpy(), (matrix_a @ matrix_b.T)[row, column])
