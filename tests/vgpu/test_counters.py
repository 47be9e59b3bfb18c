"""Counters against numbers derived by hand: bank conflicts, sectors, bytes, FLOPs, instructions by class."""

from __future__ import annotations

import numpy as np
import pytest

COUNTING = ("banks", "sectors", "traffic")


def aligned(words: int) -> np.ndarray:
    """Words from a multiple of 32 bytes on."""
    buffer = np.zeros(words + 8, np.uint32)
    return buffer[(-buffer.ctypes.data // 4) % 8 :][:words]


def transpose(pitch: int) -> str:
    """A warp stores rows of 32 words and reads columns; ``pitch`` words a row."""
    rows = "\n".join(f"add.u32 %r3, %r2, {4 * pitch * k}; st.shared.u32 [%r3], %t;" for k in range(32))
    columns = "\n".join(f"ld.shared.u32 %r5, [%r4+{4 * k}]; st.global.u32 [%d0+{128 * k}], %r5;" for k in range(32))
    return f""".shared .align 4 .b8 s[{4 * pitch * 32}]; mov.u32 %r1, s; shl.b32 %r0, %t, 2; add.u32 %r2, %r1, %r0;
    mad.lo.u32 %r4, %t, {4 * pitch}, %r1; mad.wide.u32 %d0, %t, 4, %a0;
    {rows}
    bar.warp.sync -1;
    {columns}"""


def counts(launch_body, body, args, **options):
    report = launch_body(body, args, checks=COUNTING, **options)
    assert report.ok, str(report)
    return report


@pytest.mark.parametrize(("pitch", "conflicts"), [(32, 32 * 31), (33, 0), (34, 32 * 1), (36, 32 * 3), (40, 32 * 7)])
def test_transpose(launch_body, pitch, conflicts):
    """Column reads hit gcd(pitch, 32) lanes a bank: pitch 32 is the 32-way conflict."""
    report = counts(launch_body, transpose(pitch), [aligned(1024)])
    assert report.counts["shared.conflicts"] == conflicts
    assert report.counts["shared.wavefronts"] == 64 + conflicts
    assert report.counts["shared.bytes"] == 2 * 4096
    assert report.counts["global.bytes"] == 4096
    assert report.counts["global.sectors"] == 32 * 4
    assert report.counts["l2.bytes"] == 4096


def test_broadcast_and_wide_accesses(launch_body):
    body = """.shared .align 16 .b8 s[512]; mov.u32 %r1, s; shl.b32 %r0, %t, 4; add.u32 %r2, %r1, %r0;
    st.shared.v4.u32 [%r2], {%t, %t, %t, %t};
    ld.shared.u32 %r3, [%r1];"""
    report = counts(launch_body, body, [])
    by_line = {h.ptx.split()[0]: h for h in report.hot}
    wide = by_line["st.shared.v4.u32"]
    assert (wide.wavefronts, wide.conflicts, wide.shared_bytes) == (4, 0, 512)
    assert (by_line["ld.shared.u32"].wavefronts, by_line["ld.shared.u32"].conflicts) == (1, 0)


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (4, 16), (8, 32), (32, 32)])
def test_strided_loads(launch_body, stride, sectors):
    """32 lanes of 4 bytes, ``stride`` words apart, from an aligned base."""
    body = f"mad.wide.u32 %d0, %t, {4 * stride}, %a0; ld.global.u32 %r0, [%d0];"
    report = counts(launch_body, body, [aligned(1024)])
    assert (report.counts["global.requests"], report.counts["global.sectors"]) == (1, sectors)
    assert report.counts["global.bytes"] == 128


def test_misaligned_base_costs_one_more_sector(launch_body):
    report = counts(launch_body, "mad.wide.u32 %d0, %t, 4, %a0; ld.global.u32 %r0, [%d0];", [aligned(64)[1:33]])
    assert report.counts["global.sectors"] == 5


def test_flops_and_classes(launch_body):
    body = """mov.f32 %f0, 0f3F800000; setp.lt.u32 %p1, %t, 40; @!%p1 bra END;
    fma.rn.f32 %f1, %f0, %f0, %f0; add.f32 %f2, %f1, %f0; mul.f32 %f3, %f2, %f2; add.s32 %r0, %t, 1;
    mov.u32 %r1, 0; mov.u32 %r2, 0; END:
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r1, %r1, %r1, %r1}, {%r1, %r1},
        {%f0, %f0, %f0, %f0};"""
    body = body.replace("setp.lt", "mov.u32 %r1, 0; setp.lt")
    report = counts(launch_body, body, [], block=64)
    assert report.counts["flops.fma"] == 40 * (2 + 1 + 1)
    assert report.counts["flops.mma"] == 2 * 2 * 16 * 8 * 16
    assert report.counts["instructions.matrix"] == 2
    assert report.counts["instructions.float"] == 2 * 3
    assert sum(v for k, v in report.counts.items() if k.startswith("instructions.")) == report.counts["instructions"]


def test_gemm_flops(launch_body):
    """16 blocks of one warp, each 16 x 8 of C over K = 64: 2 M N K in all."""
    m, n, k = 64, 32, 64
    body = f"""mov.u32 %r1, 0; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    mov.u32 %r2, 0;
LOOP: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{%r1, %r1, %r1, %r1}}, {{%r1, %r1}},
        {{%f0, %f1, %f2, %f3}};
    add.u32 %r2, %r2, 16; setp.lt.u32 %p1, %r2, {k}; @%p1 bra LOOP;"""
    report = counts(launch_body, body, [], grid=(m // 16) * (n // 8))
    assert report.counts["flops.mma"] == 2 * m * n * k


def test_cp_async_counts_both_sides(launch_body):
    body = """.shared .align 16 .b8 s[512]; mov.u32 %r1, s; shl.b32 %r0, %t, 4; add.u32 %r2, %r1, %r0;
    mad.wide.u32 %d0, %t, 16, %a0; cp.async.cg.shared.global [%r2], [%d0], 16; cp.async.wait_all;"""
    report = counts(launch_body, body, [aligned(128)])
    assert (report.counts["shared.bytes"], report.counts["global.bytes"]) == (512, 512)
    assert (report.counts["global.sectors"], report.counts["shared.conflicts"]) == (16, 0)


def test_hot_lines(launch_body):
    body = "mov.u32 %r0, 0;\nLOOP: add.u32 %r0, %r0, 1;\nsetp.lt.u32 %p1, %r0, 10;\n@%p1 bra LOOP;"
    report = counts(launch_body, body, [], block=64)
    assert report.hot[0].runs == 2 * 10
    assert report.hot[0].ptx == "LOOP: add.u32 %r0, %r0, 1;"
    assert report.hot[0].lanes == 640
    assert report.hot[0].instruction_class == "integer"
    assert report.to_dict()["hot"][0]["runs"] == 20


def test_only_what_was_asked_for(launch_body):
    assert list(launch_body("ret;", []).counts) == ["instructions"]
    assert launch_body("ret;", []).hot == ()
    assert set(launch_body("ret;", [], checks=["banks"]).counts) == {
        "instructions", "shared.wavefronts", "shared.conflicts",
    }  # fmt: skip
