from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu


def line_of(ptx: str, text: str) -> int:
    return next(n for n, line in enumerate(ptx.splitlines(), 1) if text in line)


REVERSE = """.shared .align 4 .b8 s[512];
shl.b32 %r0, %t, 2; mov.u32 %r1, s; add.u32 %r2, %r1, %r0; st.shared.u32 [%r2], %t;
bar.sync 0;
sub.u32 %r3, 127, %t; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1; ld.shared.u32 %r4, [%r3];
mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r4;"""


@pytest.mark.parametrize("mode", vgpu.MODES)
def test_bar_sync_orders_warps_in_every_mode(launch_body, mode):
    out = np.zeros(128, np.uint32)
    report = launch_body(REVERSE, [out], block=128, mode=mode)
    assert report.ok, str(report)
    assert out.tolist() == list(range(127, -1, -1))


@pytest.mark.parametrize("mode", ["skew", "skew-reverse"])
def test_skew_finds_a_missing_barrier(launch_body, mode):
    report = launch_body(REVERSE.replace("bar.sync 0;", ""), [np.zeros(128, np.uint32)], block=128, mode=mode)
    assert report.findings[0].kind == "uninitialized-shared"


def test_reductions_and_named_barriers(launch_body):
    out = np.zeros(96, np.uint32)
    body = """setp.lt.u32 %p1, %t, 40; setp.ge.u32 %p2, %t, 96; @%p2 bra OTHER;
    barrier.cta.red.popc.aligned.u32 %r0, 3, 96, %p1; bar.red.and.pred %p3, 4, 96, %p1; bar.red.or.pred %p4, 5, 96, %p1;
    selp.u32 %r1, 1000, 0, %p3; selp.u32 %r2, 2000, 0, %p4; add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2;
    mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r0;
OTHER:"""
    report = launch_body(body, [out], block=128)
    assert report.ok, str(report)
    assert set(out.tolist()) == {2040}


def test_arrive_does_not_wait(launch_body):
    out = np.zeros(1, np.uint32)
    body = """.shared .align 4 .u32 s; setp.lt.u32 %p1, %t, 32; @!%p1 bra CONSUMER; setp.eq.u32 %p2, %t, 0;
        @%p2 st.shared.u32 [s], 77;
    bar.arrive 1, 64; ret;
CONSUMER: bar.sync 1, 64; ld.shared.u32 %r0, [s]; st.global.u32 [%a0], %r0;"""
    for mode in vgpu.MODES:
        out[0] = 0
        report = launch_body(body, [out], block=64, mode=mode)
        assert report.ok, str(report)
        assert out[0] == 77


def test_deadlock_says_who_waits_for_what(make_kernel):
    ptx = make_kernel("setp.ge.u32 %p1, %t, 32; @%p1 ret;\nbar.sync 2, 64;", 0)
    (finding,) = vgpu.launch(ptx, "k", 1, 64, [], target="sm_80").findings
    assert finding.kind == "deadlock"
    line = line_of(ptx, "bar.sync")
    assert finding.ptx_line == line
    assert f"warp 0 waits at PTX line {line} for bar.sync 2 (32 of 64 threads arrived)" in finding.message


def test_exited_threads_do_not_count(launch_body):
    report = launch_body("setp.ge.u32 %p1, %t, 50; @%p1 ret; bar.sync 0;", [], block=64)
    assert report.ok, str(report)


def test_divergent_barrier(make_kernel):
    ptx = make_kernel(
        "and.b32 %r0, %t, 1; setp.eq.u32 %p1, %r0, 0; @%p1 bra EVEN;\nbar.sync 0; ret;\nEVEN:\nbar.sync\t0;", 0
    )
    report = vgpu.launch(ptx, "k", 1, 64, [], target="sm_80")
    assert {f.kind for f in report.findings} == {"barrier"}
    assert report.findings[0].ptx_line == line_of(ptx, "bar.sync 0")
    assert "divergent barrier: lanes 0xaaaaaaaa" in report.findings[0].message
    assert f"lanes 0x55555555 at PTX line {line_of(ptx, 'bar.sync	0')}" in report.findings[0].message


def test_a_barrier_that_some_lanes_go_around(make_kernel):
    body = "setp.ge.u32 %p1, %t, 40; @%p1 bra AROUND;\nbar.sync 0;\nAROUND: add.u32 %r0, %t, 1; {more}"
    for more in ("", "bar.sync 1, 64;"):
        ptx = make_kernel(body.format(more=more), 0)
        report = vgpu.launch(ptx, "k", 1, 64, [], target="sm_80")
        found = [f for f in report.findings if f.kind == "barrier"]
        if more:  # warp 1 never completes barrier 1 while its lanes 0-7 stand in front of barrier 0
            assert {f.kind for f in report.findings} == {"deadlock"}
            continue
        (finding,) = found
        assert finding.ptx_line == line_of(ptx, "bar.sync 0")
        assert "lanes 0xff of the warp wait here, lanes 0xffffff00 go on without it" in finding.message
        assert finding.warp == 1


def test_lanes_that_jump_to_the_end_leave(launch_body):
    report = launch_body("setp.ge.u32 %p1, %t, 50; @%p1 bra OUT; bar.sync 0; add.u32 %r0, %t, 1; OUT:", [], block=64)
    assert report.ok, str(report)


def test_lanes_that_come_later_to_the_same_barrier(launch_body):
    body = """setp.ge.u32 %p1, %t, 40; @%p1 bra FAR;
    JOIN: bar.sync 0; ret;
    FAR: add.u32 %r0, %t, 1; bra JOIN;"""
    report = launch_body(body, [], block=64)
    assert report.ok, str(report)


def test_wrong_counts(launch_body):
    assert "not a positive multiple of 32" in launch_body("bar.sync 0, 33;", []).findings[0].message
    assert "a block has 16" in launch_body("mov.u32 %r0, 16; bar.sync %r0;", []).findings[0].message
    body = "setp.lt.u32 %p1, %t, 32; @%p1 bra A; bar.sync 1, 64; ret; A: bar.sync 1, 96;"
    assert "expects 96 threads" in launch_body(body, [], block=64).findings[0].message


def test_cluster_barrier_and_distributed_shared_memory(launch_body):
    out = np.zeros(4, np.uint32)
    body = """.shared .align 4 .u32 s; mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %ctaid.x; mov.u32 %r2, s;
    add.u32 %r3, %r1, 10; st.shared.u32 [%r2], %r3;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    xor.b32 %r4, %r0, 1; mapa.shared::cluster.u32 %r5, %r2, %r4; ld.shared::cluster.u32 %r6, [%r5];
    mad.wide.u32 %d0, %r1, 4, %a0; st.global.u32 [%d0], %r6;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    for mode in vgpu.MODES:
        out[:] = 0
        report = launch_body(body, [out], block=32, grid=4, cluster=2, mode=mode)
        assert report.ok, str(report)
        assert out.tolist() == [11, 10, 13, 12]
