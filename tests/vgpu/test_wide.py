"""128-bit registers: moves, loads, stores and atomics."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu
from tilewright.vgpu.errors import PtxSyntaxError, UnsupportedInstruction

REGISTERS = ".reg .b128 %q<8>;"


def pairs(*values):
    """128-bit numbers as pairs of words, the lower first."""
    return np.array([[v & (1 << 64) - 1, v >> 64] for v in values], np.uint64)


@pytest.mark.parametrize("space", ["global", "shared", "local", "generic"])
def test_moves_loads_and_stores(launch_body, space):
    source = np.random.default_rng(0).integers(0, 1 << 63, (32, 2)).astype(np.uint64)
    out = np.zeros((32, 6), np.uint64)
    word, home = {
        "global": ("global", "[%d1]"),
        "shared": ("shared", "[%r1]"),
        "local": ("local", "[stack]"),
        "generic": ("", "[%d2]"),
    }[space]
    dot = f".{word}" if word else ""
    body = f"""{REGISTERS} .shared .align 16 .b8 s[512]; .local .align 16 .b8 stack[16];
        mad.wide.u32 %d0, %t, 16, %a0; mad.wide.u32 %d1, %t, 48, %a1; shl.b32 %r0, %t, 4; mov.u32 %r1, s;
        add.u32 %r1, %r1, %r0; cvt.u64.u32 %d2, %r1; cvta.shared.u64 %d2, %d2;
        ld.global.nc.b128 %q0, [%d0]; st{dot}.b128 {home}, %q0; ld{dot}.b128 %q1, {home};
        mov.b128 {{%d4, %d5}}, %q1; mov.b128 %q2, {{%d5, %d4}}; mov.b128 {{%r4, %r5, %r6, %r7}}, %q2;
        mov.b128 %q3, {{%r4, %r5, %r6, %r7}}; mov.b128 %q4, %q3; mov.b128 %q5, 0x123456789abcdef00fedcba987654321;
        st.global.b128 [%d1], %q1; st.global.b128 [%d1+16], %q4; st.global.b128 [%d1+32], %q5;"""
    report = launch_body(body, [source, out])
    assert report.ok, str(report)
    assert np.array_equal(out[:, :2], source)
    assert np.array_equal(out[:, 2:4], source[:, ::-1])
    assert np.array_equal(out[:, 4:], np.repeat(pairs(0x123456789ABCDEF00FEDCBA987654321), 32, 0))


@pytest.mark.parametrize("space", ["global", "shared"])
def test_exchange_and_compare(launch_body, space):
    """Every thread adds its number to a 128-bit sum by compare and swap, and exchanges another word."""
    out = np.zeros((3, 2), np.uint64)
    start = (1 << 64) - 3  # carries into the upper half
    at = {"global": ("%a0", "%a0+16"), "shared": ("%r1", "%r1+16")}[space]
    body = f"""{REGISTERS} .shared .align 16 .b8 s[32]; mov.u32 %r1, s; setp.eq.u32 %p0, %t, 0; mov.b128 %q0, {start};
        @%p0 st.{space}.b128 [{at[0]}], %q0; mov.b128 %q1, 0; @%p0 st.{space}.b128 [{at[1]}], %q1; bar.sync 0;
        ld.relaxed.gpu.{space}.b128 %q0, [{at[0]}]; cvt.u64.u32 %d3, %t;
    AGAIN: mov.b128 {{%d0, %d1}}, %q0; add.cc.u64 %d4, %d0, %d3; addc.u64 %d5, %d1, 0; mov.b128 %q2, {{%d4, %d5}};
        atom.acq_rel.gpu.{space}.cas.b128 %q3, [{at[0]}], %q0, %q2; mov.b128 {{%d6, %d7}}, %q3;
        setp.ne.u64 %p1, %d6, %d0; setp.ne.or.u64 %p1, %d7, %d1, %p1; mov.b128 %q0, %q3; @%p1 bra AGAIN;
        mov.b128 %q4, {{%d3, %d3}}; atom.relaxed.gpu.{space}.exch.b128 %q5, [{at[1]}], %q4; bar.sync 0;
        @%p0 ld.{space}.b128 %q6, [{at[0]}]; @%p0 st.global.b128 [%a0+32], %q6;
        mov.b128 {{%d8, %d9}}, %q5; setp.eq.u64 %p2, %d8, %d9; @!%p2 trap;"""
    for mode in vgpu.MODES:
        report = launch_body(body, [out], block=96, mode=mode, checks={"race"})
        assert report.ok, str(report)
        total = start + sum(range(96))
        assert out[2].tolist() == pairs(total)[0].tolist()


def test_what_they_refuse(launch_body):
    for text, error, message in (
        ("add.u64 %d0, %d1, %q0;", PtxSyntaxError, "'%q0' does not have the 64 bits of type .u64"),
        ("mov.b128 %q0, %d0;", PtxSyntaxError, "'%d0' does not have the 128 bits of type .b128"),
        ("mov.b128 {%d0, %d1}, {%d2, %d3};", UnsupportedInstruction, "has two vectors"),
        ("ld.global.v2.b128 {%q0, %q1}, [%a0];", UnsupportedInstruction, "moves 32 bytes"),
        ("ld.param.b128 %q0, [p0];", UnsupportedInstruction, "state space .param"),
        ("ld.global.b32 %r0, [%q0];", PtxSyntaxError, "'%q0' cannot hold an address"),
        ("ld.global.b64 %q0, [%a0];", PtxSyntaxError, "cannot hold a value of type .b64"),
    ):
        with pytest.raises(error, match=f"PTX line \\d+: .*{message}".replace("{", "\\{")):
            launch_body(f"{REGISTERS} {text}", [np.zeros(4, np.uint64)])
    with pytest.raises(UnsupportedInstruction, match=r"atom\.global\.exch\.b128 needs sm_90"):
        launch_body(f"{REGISTERS} atom.global.exch.b128 %q0, [%a0], %q1;", [np.zeros(4, np.uint64)], target="sm_80")


def test_misaligned(launch_body):
    out = np.zeros(8, np.uint64)
    offset = 8 if out.ctypes.data % 16 == 0 else 0
    (finding,) = launch_body(f"{REGISTERS} ld.global.b128 %q0, [%a0+{offset}];", [out], block=1).findings
    assert finding.kind == "misaligned"
    assert "is not a multiple of 16" in finding.message
