"""Malformed operands, declarations and launches end in one error that names the line or argument."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

STATEMENTS = {
    "setp.eq.u32 1, %r0, %r1;": "'1' is not a predicate",
    "setp.eq.u32 !%p0, %r0, %r1;": "'!%p0' is not a predicate",
    "ld.global.u64 %r0, [%a0];": "'%r0' cannot hold a value of type .b64",
    "ld.global.u32 %p0, [%a0];": "'%p0' cannot hold a value of type .b32",
    "ld.global.v2.u32 {%r0, %d0}, [%a0];": "differ in width",
    "cvt.rn.f16.f32 %d0, %f0;": "'%d0' cannot hold a value of type .f16",
    "add.u32 %r0, , %r1;": "an operand is missing",
    "add.u32 %r0, %r1, 09;": "'09' is not a register, literal",
    "ld.global.u32 %r0, [%a0+0x];": "offset '0x' is not a number",
    ".local .align 3 .b8 x[4];": "3 is not an alignment",
    ".local .b8 x[99999999999999];": "is too large",
    ".local .b8 x[1000000];": "exceeds the 524288 bytes of local memory",
    "{ .reg .b32 %q<9999999>; }": "a register declaration is malformed",
}
OPCODES = {
    "ld.global.u32 %r0;": "ld.global.u32 has 1 operands where 2 belong",
    "st.global.u32 [%a0];": "st.global.u32 has 1 operands",
    "cvt.f32.tf32 %f0, %r0;": "cvt.f32.tf32 is no spelling of cvt",
    "add.rn.f32x2 %d0, %d0, %d0;": "add.rn.f32x2 needs sm_100 or newer",
    "cvt.rs.f16x2.f32 %r0, %f0, %f1, %r1;": "cvt.rs.f16x2.f32 needs sm_100a",
    "brx.foo %r0, TABLE;": "brx.foo is not run by the virtual GPU",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_malformed_statements(make_kernel, statement):
    ptx = make_kernel(statement, 1)
    line = ptx.split("\n").index(statement) + 1
    with pytest.raises(vgpu.PtxSyntaxError, match=f"PTX line {line}: ") as caught:
        vgpu.launch(ptx, "k", 1, 32, [np.zeros(4, np.uint32)], target="sm_90a")
    assert STATEMENTS[statement] in str(caught.value)


@pytest.mark.parametrize("statement", OPCODES)
def test_unknown_opcodes_and_modifiers(make_kernel, statement):
    ptx = make_kernel(statement, 1)
    line = ptx.split("\n").index(statement) + 1
    with pytest.raises(vgpu.UnsupportedInstruction, match=f"PTX line {line}: ") as caught:
        vgpu.launch(ptx, "k", 1, 32, [np.zeros(4, np.uint32)], target="sm_90a")
    assert OPCODES[statement] in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": 1.5}, "grid must be 1 to 3 positive whole numbers"),
        ({"grid": True}, "grid must be 1 to 3 positive whole numbers"),
        ({"grid": (1, 70_000)}, "grid is beyond its limits"),
        ({"grid": 2**25}, "at most 16777216 blocks"),
        ({"block": (1, 1, 65)}, "block is beyond its limits"),
        ({"cluster": (4, 4, 2), "grid": (4, 4, 2)}, "a cluster has at most 16 blocks"),
        ({"dynamic_smem": "x"}, "dynamic_smem must be a whole number"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"budget": 0}, "budget must be a whole number from 1"),
        ({"threads": 0}, "threads must be 1 to 256"),
        ({"entry": 3}, "entry must be a string"),
        ({"args": None}, "args must be a sequence"),
        ({"ptx": b"x"}, "ptx must be text or a parsed module"),
    ],
)
def test_wrong_launches(make_kernel, change, message):
    plan = {"ptx": make_kernel("", 0), "entry": "k", "grid": 1, "block": 32, "args": [], "target": "sm_90a"} | change
    with pytest.raises(vgpu.LaunchError, match=message):
        vgpu.launch(**plan)


def test_a_long_run_of_blanks_costs_no_time(make_kernel):
    ptx = make_kernel(" " * 5000 + "\x01", 0)
    with pytest.raises(vgpu.PtxSyntaxError, match="a statement is malformed"):
        vgpu.launch(ptx, "k", 1, 32, [], target="sm_90a")


def test_an_initialiser_longer_than_its_variable(make_kernel):
    ptx = make_kernel("mov.u64 %d0, x;", 0, module=".global .align 4 .b8 x[2] = {1, 2, 3};")
    with pytest.raises(vgpu.PtxSyntaxError, match="the initialiser of x is longer than its 2 bytes"):
        vgpu.launch(ptx, "k", 1, 32, [], target="sm_90a")


def test_addresses_that_wrap_around_are_out_of_bounds(launch_body):
    report = launch_body("mov.u64 %d0, -4; ld.local.u32 %r0, [%d0]; st.local.u32 [%d0], %r0;", [], block=32)
    assert report.findings[0].kind == "out-of-bounds"


def test_tiles_of_a_warp_with_masks_of_their_own(launch_body):
    out = np.zeros(32, np.uint32)
    body = """and.b32 %r0, %t, 16; mov.u32 %r1, 65535; shl.b32 %r1, %r1, %r0; vote.sync.ballot.b32 %r2, 1, %r1;
shfl.sync.idx.b32 %r3, %t, 3, 0x101f, %r1; redux.sync.add.u32 %r4, %t, %r1; bar.warp.sync %r1;
mad.lo.u32 %r5, %r3, 1000, %r4; popc.b32 %r2, %r2; mad.lo.u32 %r5, %r2, 100000, %r5;
mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r5;"""
    report = launch_body(body, [out])
    assert report.ok, str(report)
    sums = [sum(range(16)), sum(range(16, 32))]
    assert out.tolist() == [16 * 100_000 + (3 + t // 16 * 16) * 1000 + sums[t // 16] for t in range(32)]
