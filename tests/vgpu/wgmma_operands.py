"""Operands of wgmma in shared memory and registers, as the PTX ISA lays them out, and a kernel that uses them."""

import numpy as np
import torch

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
    selector=None,
):
    """Copies the image into shared memory, loads old D, runs `repeat` times the wgmma, stores D."""
    old = "\n".join(f"ld.global.b32 %d{i}, [%d+{4 * i}];" for i in range(registers))
    new = "\n".join(f"st.global.b32 [%d+{4 * i}], %d{i};" for i in range(registers))
    a = "{%a0, %a1, %a2, %a3}" if a_in_registers else "%da"
    d = ", ".join(f"%d{i}" for i in range(registers))
    fragments = "\n".join(f"ld.global.b32 %a{i}, [%fa+{4 * i}];" for i in range(4)) if a_in_registers else ""
    sparse = "" if selector is None else ".sp"
    kept = "" if selector is None else f"%m, {selector}, "
    words = "" if selector is None else "ld.global.b32 %m, [%fm+2048];"  # behind the fragments
    product = f"wgmma.mma_async{sparse}.sync.aligned.{opcode} {{{d}}}, {a}, %db, {kept}%p1{tail};"
    return f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pimage, .param .u64 pfa, .param .u64 pd, .param .u64 pda, .param .u64 pdb,
    .param .u32 pscale)
{{
.shared .align 1024 .b8 tile[{SHARED}];
.reg .b32 %d<{registers}>, %a<4>, %r<4>, %t, %i, %x, %scale, %n, %m;
.reg .b64 %image, %fa, %d, %da, %db, %o, %fm;
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
mul.wide.u32 %fm, %t, 4;
add.s64 %fm, %fa, %fm;
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
{words}
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
