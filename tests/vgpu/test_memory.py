from __future__ import annotations

import numpy as np
import pytest
import torch

from tilewright import vgpu
from tilewright.vgpu.errors import UnsupportedInstruction


def line_of(ptx: str, text: str) -> int:
    return next(n for n, line in enumerate(ptx.splitlines(), 1) if text in line)


def test_vector_loads_and_stores_of_every_width(launch_body):
    source = np.arange(32 * 16, dtype=np.uint8)
    out = np.zeros_like(source)
    body = """mad.wide.u32 %d0, %t, 16, %a0; mad.wide.u32 %d1, %t, 16, %a1;
        ld.global.v4.u8 {%h0, %h1, %h2, %h3}, [%d0]; st.global.v4.u8 [%d1], {%h0, %h1, %h2, %h3};
        ld.global.nc.v2.b16 {%h4, %h5}, [%d0+4]; st.global.v2.b16 [%d1+4], {%h4, %h5};
        ld.global.b64 %d2, [%d0+8]; st.global.b64 [%d1+8], %d2;"""
    assert launch_body(body, [source, out]).ok
    assert np.array_equal(out, source)


def test_sign_extension_into_wider_registers(launch_body):
    source = np.array([-5, 250], np.int16)
    out = np.zeros(4, np.int64)
    body = """ld.global.s16 %r1, [%a0]; ld.global.u16 %r2, [%a0]; ld.global.s8 %d3, [%a0]; ld.global.s16 %h1, [%a0];
        cvt.s64.s32 %d1, %r1; cvt.u64.u32 %d2, %r2; cvt.s64.s16 %d4, %h1; st.global.v2.b64 [%a1], {%d1, %d2};
        st.global.v2.b64 [%a1+16], {%d3, %d4};"""
    assert launch_body(body, [source, out], block=1).ok
    assert out.tolist() == [-5, 65531, -5, -5]


def test_shared_generic_and_local_addresses(launch_body):
    out = np.zeros(32, np.uint32)
    body = """.shared .align 8 .b8 buffer[128]; .local .align 8 .b8 stack[16];
        mov.u64 %d0, buffer; cvta.shared.u64 %d1, %d0; mad.wide.u32 %d2, %t, 4, %d1; st.u32 [%d2], %t;
        bar.sync 0; xor.b32 %r1, %t, 31; shl.b32 %r2, %r1, 2; mov.u32 %r3, buffer; add.u32 %r3, %r3, %r2;
        ld.shared.u32 %r4, [%r3];
        mov.u64 %d3, stack; cvta.local.u64 %d4, %d3; st.u32 [%d4+4], %r4; ld.local.u32 %r5, [stack+4];
        isspacep.shared %p1, %d1; isspacep.global %p2, %d4; selp.u32 %r6, 100, 0, %p1; selp.u32 %r7, 1000, 0, %p2;
        add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r7; mad.wide.u32 %d5, %t, 4, %a0; st.global.u32 [%d5], %r5;"""
    report = launch_body(body, [out])
    assert report.ok, str(report)
    assert out.tolist() == [31 - n + 100 for n in range(32)]


def test_module_variables_with_initialisers(launch_body):
    out = np.zeros(4, np.uint32)
    module = """.global .align 4 .u32 table[4] = {7, 8, 0x9, 10};
.const .align 8 .u64 pointer = generic(table);
.visible .global .align 1 .b8 text[3] = {65, 66};"""
    body = """ld.const.u64 %d0, [pointer]; ld.u32 %r0, [%d0+8]; ld.global.u32 %r1, [table+4]; mov.u64 %d1, text;
        ld.global.u8 %r2, [%d1+1]; ld.global.u8 %r3, [%d1+2]; st.global.v4.u32 [%a0], {%r0, %r1, %r2, %r3};"""
    assert launch_body(body, [out], block=1, module=module).ok
    assert out.tolist() == [9, 8, 66, 0]


def test_out_of_bounds_names_thread_address_and_neighbour(make_kernel):
    x = torch.zeros(30)
    ptx = make_kernel("mad.wide.u32 %d0, %t, 4, %a0;\nst.global.f32 [%d0], 0f3F800000;", 1)
    report = vgpu.launch(ptx, "k", 1, 32, [x], target="sm_80", threads=1)
    (finding,) = report.findings
    assert finding.kind == "out-of-bounds"
    assert (
        finding.message == f"write of 4 bytes at global address {hex(x.data_ptr() + 120)}: "
        "0 bytes behind the end of argument 0 (120 bytes)"
    )
    assert (finding.block, finding.thread, finding.ptx_line) == ((0, 0, 0), (30, 0, 0), line_of(ptx, "st.global"))
    assert finding.ptx.startswith("st.global.f32 [%d0]")


def test_a_strided_view_is_legal_only_inside_its_hull(launch_body):
    base = torch.zeros(8, 8)
    view = base[2:4, 2:4]  # hull: 10 elements
    body = "mad.wide.u32 %d0, %t, 4, %a0; st.global.f32 [%d0], 0f3F800000;"
    assert launch_body(body, [view], block=10).ok
    assert launch_body(body, [view], block=11).findings[0].kind == "out-of-bounds"


def test_misaligned_access(launch_body):
    x = np.zeros(64, np.uint32)
    report = launch_body("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%a0+8];", [x], block=1)
    expected = (x.ctypes.data + 8) % 16
    assert report.findings[0].kind == ("misaligned" if expected else report.findings[0].kind)
    report = launch_body("mov.u32 %r1, 6; ld.shared.u32 %r0, [%r1]; .shared .b8 s[64];", [], block=1)
    assert report.findings[0].kind == "misaligned"
    assert report.findings[0].message == "shared address 0x6 is not a multiple of 4"


def test_shared_limit(launch_body):
    report = launch_body("mov.u32 %r1, 4096; ld.shared.u32 %r0, [%r1]; .shared .b8 s[64];", [], block=1)
    assert report.findings[0].kind == "out-of-bounds"
    assert "the block has 64 bytes" in report.findings[0].message


def test_uninitialised_shared_read(make_kernel):
    ptx = make_kernel(
        ".shared .align 4 .b8 s[256];\nmov.u32 %r1, 64;\n@%p1 st.shared.u32 [%r1], %t;\nld.shared.u32 %r0, [s+128];", 0
    )
    ptx = ptx.replace("mov.u32 %r1, 64;", "mov.u32 %r1, 64; setp.eq.u32 %p1, %t, 0;")
    report = vgpu.launch(ptx, "k", 1, 32, [], target="sm_80")
    assert [f.kind for f in report.findings] == ["uninitialized-shared"]
    assert report.findings[0].ptx_line == line_of(ptx, "ld.shared.u32 %r0")
    assert "0x80" in report.findings[0].message


def test_uninitialised_register_counts_only_where_it_matters(launch_body, make_kernel):
    out = np.zeros(32, np.uint32)
    dead = """setp.lt.u32 %p1, %t, 4; @%p1 mov.u32 %r1, 7; add.u32 %r2, %r1, 1; mov.u32 %r2, 5;
        mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r2;"""
    assert launch_body(dead, [out]).ok
    ptx = make_kernel(dead.replace("mov.u32 %r2, 5;", "").replace("st.global", "\nst.global"), 1)
    (finding,) = vgpu.launch(ptx, "k", 1, 32, [out], target="sm_80").findings
    assert (finding.kind, finding.lane, finding.ptx_line) == ("uninitialized-register", 4, line_of(ptx, "st.global"))
    branch = launch_body("@%p5 bra END; mov.u32 %r0, 1;\nEND:", [])
    assert branch.findings[0].kind == "uninitialized-register"
    assert "branch" in branch.findings[0].message


def test_a_packed_register_is_undefined_where_all_parts_are(launch_body):
    out = np.zeros(32, np.uint32)
    body = "cvt.u16.u32 %h0, %t; mov.b32 %r1, {{{parts}}}; and.b32 %r1, %r1, 0xffff; mad.wide.u32 %d0, %t, 4, %a0;"
    body += "st.global.u32 [%d0], %r1;"
    assert launch_body(body.format(parts="%h0, %h1"), [out]).ok
    assert out.tolist() == list(range(32))
    (finding,) = launch_body(body.format(parts="%h2, %h1"), [out]).findings
    assert finding.kind == "uninitialized-register"


@pytest.mark.parametrize(
    ("permutation", "defined"),
    [
        ("prmt.b32 %r1, %t, %r9, 0x3210;", True),  # takes no byte of the register that nothing wrote
        ("prmt.b32 %r1, %r9, %t, 0x7654;", True),
        ("prmt.b32.rc8 %r1, %t, %r9, 0;", True),
        ("prmt.b32 %r1, %t, %r9, 0x5410;", True),  # half of it: the rest may be dropped
        ("prmt.b32 %r1, %t, %r9, 0x7654;", False),
        ("prmt.b32 %r1, %r9, %t, 0x3210;", False),
        ("prmt.b32.rc8 %r1, %r9, %t, 0;", False),
        ("prmt.b32 %r1, %t, %t, %r9;", False),
        ("prmt.b32 %r1, %r9, %r8, 0x5410;", False),
    ],
)
def test_a_permutation_is_undefined_where_all_its_bytes_are(launch_body, permutation, defined):
    out = np.zeros(32, np.uint32)
    body = f"{permutation} and.b32 %r1, %r1, 0xff; mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r1;"
    report = launch_body(body, [out])
    assert [f.kind for f in report.findings] == ([] if defined else ["uninitialized-register"]), str(report)
    if defined:
        assert out.tolist() == list(range(32))


def test_a_selection_depends_only_on_what_it_selects(launch_body):
    out = np.zeros(32, np.uint32)
    body = """setp.lt.u32 %p1, %t, 8; selp.u32 %r2, 7, %r1, %p1; mad.wide.u32 %d0, %t, 4, %a0;
        {guard} st.global.u32 [%d0], %r2;"""
    assert launch_body(body.format(guard="@%p1"), [out]).ok
    assert out.tolist() == [7] * 8 + [0] * 24
    (finding,) = launch_body(body.format(guard=""), [out]).findings
    assert (finding.kind, finding.lane) == ("uninitialized-register", 8)


def test_further_memory_makes_pointers_in_memory_legal(launch_body):
    data = np.array([41], np.uint32)
    table = np.array([data.ctypes.data], np.uint64)
    body = "ld.global.u64 %d0, [%a0]; ld.global.u32 %r0, [%d0]; add.u32 %r0, %r0, 1; st.global.u32 [%d0], %r0;"
    assert launch_body(body, [table], block=1).findings[0].kind == "out-of-bounds"
    assert launch_body(body, [table], block=1, memory=[data]).ok
    assert data[0] == 42


def test_windows_of_shared_memory(launch_body):
    """``.shared`` and ``.shared::cta`` are the own block's part of ``.shared::cluster``."""
    out = np.zeros(8, np.uint32)
    body = """.shared .align 4 .b8 s[4]; mov.u64 %d0, s; cvta.shared.u64 %d0, %d0; mov.u32 %r0, %cluster_ctarank;
        xor.b32 %r1, %r0, 1; mapa.u64 %d1, %d0, %r0; mapa.u64 %d2, %d0, %r1; mul.wide.u32 %d3, %r0, 16;
        add.u64 %a0, %a0, %d3; mov.u32 %r2, 0;
        isspacep.shared::cta %p0, %d0; isspacep.shared::cluster %p1, %d0; isspacep.shared::cta %p2, %d1;
        isspacep.shared %p3, %d2; isspacep.shared::cluster %p4, %d2; isspacep.global %p5, %d2;
        @%p0 or.b32 %r2, %r2, 1; @%p1 or.b32 %r2, %r2, 2; @%p2 or.b32 %r2, %r2, 4; @%p3 or.b32 %r2, %r2, 8;
        @%p4 or.b32 %r2, %r2, 16; @%p5 or.b32 %r2, %r2, 32; st.global.u32 [%a0], %r2;
        barrier.cluster.arrive; barrier.cluster.wait;"""
    report = launch_body(body, [out], block=1, grid=2, cluster=2)
    assert report.ok, str(report)
    assert out[[0, 4]].tolist() == [1 + 2 + 4 + 16] * 2


def test_the_halves_of_the_clocks(launch_body):
    out = np.zeros(6, np.uint64)
    body = """mov.u64 %d0, %globaltimer; mov.u32 %r0, %globaltimer_hi; mov.u64 %d1, %clock64; mov.u32 %r1, %clock_hi;
        mov.u32 %r2, %clock; mov.u64 %d2, %clock64;
        st.global.u64 [%a0], %d0; cvt.u64.u32 %d3, %r0; st.global.u64 [%a0+8], %d3; st.global.u64 [%a0+16], %d1;
        cvt.u64.u32 %d4, %r1; st.global.u64 [%a0+24], %d4; cvt.u64.u32 %d5, %r2; st.global.u64 [%a0+32], %d5;
        st.global.u64 [%a0+40], %d2;"""
    assert launch_body(body, [out], block=1).ok
    timer, timer_high, clock, clock_high, low, later = map(int, out)
    assert timer_high - (timer >> 32) in (0, 1)
    assert clock_high - (clock >> 32) in (0, 1)
    assert clock <= later
    assert (low - clock) % 2**32 <= later - clock


@pytest.mark.parametrize("read", ["mov.u32 %r0, %clock64", "mov.u64 %d0, %clock_hi", "mov.f32 %f0, %clock"])
def test_clocks_have_a_width(launch_body, read):
    with pytest.raises(UnsupportedInstruction, match=r"PTX line \d+: mov.* reads a clock of (32|64) bits"):
        launch_body(f"{read};", [])


@pytest.mark.parametrize(("target", "count"), [("sm_80", 108), ("sm_89", 142), ("sm_90a", 132)])
def test_the_number_of_multiprocessors_is_the_target_s(launch_body, target, count):
    """NVIDIA's data sheets of A100, L40S and H100 SXM."""
    out = np.zeros(1, np.uint32)
    assert launch_body("mov.u32 %r0, %nsmid; st.global.u32 [%a0], %r0;", [out], block=1, target=target).ok
    assert out[0] == count
