"""Deadlock reports: who waits for what, and which arrival is missing."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

INIT = """.shared .align 8 .b64 bar; mov.u32 %r9, bar; setp.eq.u32 %p0, %t, 0; setp.ge.u32 %p2, %t, 64;
@%p0 mbarrier.init.shared::cta.b64 [%r9], {count};
bar.sync 0;
"""
WAIT = "W{n}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], {parity};\n@!%p1 bra W{n};\n"


def deadlock(make_kernel, body, block):
    ptx = make_kernel(body, 0)
    report = vgpu.launch(ptx, "k", 1, block, [], target="sm_90a", threads=1)
    (finding,) = [f for f in report.findings if f.kind == "deadlock"]
    return finding, ptx.splitlines()


def number(lines, text):
    return next(n for n, line in enumerate(lines, 1) if text in line)


def test_bar_sync_names_the_missing_warps(make_kernel):
    body = "setp.lt.u32 %p1, %t, 64; @%p1 bra A;\nbar.sync 1, 128; ret;\n"
    body += "A: setp.lt.u32 %p2, %t, 32; @%p2 ret;\nbar.sync 2, 64;"
    finding, lines = deadlock(make_kernel, body, 128)
    first, second = number(lines, "bar.sync 1"), number(lines, "bar.sync 2")
    assert f"warp 1 waits at PTX line {second} for bar.sync 2 (32 of 64 threads arrived)" in finding.message
    assert f"warps 2-3 wait at PTX line {first} for bar.sync 1 (64 of 128 threads arrived)" in finding.message
    assert (
        f"missing: warp 0 (has left the kernel), warp 1 (waits at PTX line {second} for bar.sync 0x2)"
        in finding.message
    )


def test_mbarrier_without_any_arrival(make_kernel):
    finding, _ = deadlock(make_kernel, INIT.format(count=3) + WAIT.format(n=0, parity=0), 32)
    assert "3 of 3 arrivals pending, tx-count 0; no warp ever arrived on it" in finding.message


def test_mbarrier_names_who_arrived_and_who_did_not(make_kernel):
    body = INIT.format(count=96) + "mbarrier.arrive.shared::cta.b64 _, [%r9];\n" + WAIT.format(n=0, parity=0)
    body += "@%p2 ret;\nmbarrier.arrive.shared::cta.b64 _, [%r9] ;\n" + WAIT.format(n=1, parity=1)
    finding, lines = deadlock(make_kernel, body, 96)
    arrive = number(lines, "mbarrier.arrive.shared::cta.b64 _, [%r9];")
    assert f"warps 0-1 wait at PTX line {number(lines, 'W1:')} for mbarrier" in finding.message
    assert "32 of 96 arrivals pending" in finding.message
    assert "phase 1: arrived warp 0 (32), warp 1 (32)" in finding.message
    assert (
        f"arrived before but not in this phase: warp 2 (last at PTX line {arrive} for phase 0, has left the kernel)"
        in finding.message
    )


def test_mbarrier_with_bytes_outstanding(make_kernel):
    body = INIT.format(count=1) + "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 256;\n"
    finding, _ = deadlock(make_kernel, body + WAIT.format(n=0, parity=0), 32)
    assert "0 of 1 arrivals pending, tx-count 256" in finding.message
    assert "phase 0: arrived warp 0 (1)" in finding.message


# Loops that wait for a word of global memory that nobody writes.
POLL = """.local .align 8 .b8 stack[8]; mov.u32 %r1, 0; mov.u64 %d1, %clock64;
L: {before} ld.acquire.gpu.global.u32 %r0, [%a0+4]; {after} setp.eq.u32 %p1, %r0, 0; @%p1 bra L;
{behind}"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("st.local.u32 [stack], %r1;", "ld.local.u32 %r2, [stack];"),  # as compilers spill
        ("mov.u64 %d0, %globaltimer;", ""),
        ("mov.u64 %d0, %clock64; sub.u64 %d0, %d0, %d1;", "st.local.u64 [stack], %d0; nanosleep.u32 40;"),
    ],
)
@pytest.mark.parametrize("mode", vgpu.MODES)
def test_a_loop_that_writes_local_memory_or_reads_a_clock(launch_body, before, after, mode):
    words = np.array([1, 0], np.uint32)
    report = launch_body(POLL.format(before=before, after=after, behind=""), [words], mode=mode, budget=10_000_000)
    (finding,) = report.findings
    assert finding.kind == "deadlock", str(report)
    assert "for a write to byte 4 of argument 0, which holds 0" in finding.message


def test_a_wait_with_a_time_limit_ends(launch_body):
    """The limit is 20 seconds: where all wait, the clocks go ahead of the host's."""
    words, out = np.zeros(2, np.uint32), np.zeros(1, np.uint32)
    limit = "mov.u64 %d0, %globaltimer; sub.u64 %d0, %d0, %d1; setp.gt.u64 %p2, %d0, 20000000000; @%p2 bra LATE;"
    body = POLL.format(before=limit, after="", behind="bra END;\nLATE: st.global.u32 [%a1], 7;\nEND:")
    body = body.replace("%d1, %clock64", "%d1, %globaltimer")
    report = launch_body(body, [words, out], block=1)
    assert report.ok, str(report)
    assert out[0] == 7


def test_a_loop_that_only_lets_time_pass_ends(launch_body):
    out = np.zeros(1, np.uint32)
    body = """mov.u64 %d1, %globaltimer;
L: mov.u64 %d0, %globaltimer; sub.u64 %d0, %d0, %d1; setp.lt.u64 %p1, %d0, 3000000; @%p1 bra L;
st.global.u32 [%a0], 7;"""
    assert launch_body(body, [out], block=1).ok
    assert out[0] == 7


def test_a_loop_that_counts_names_what_it_polls(launch_body):
    words = np.array([1, 5], np.uint32)
    body = """mov.u32 %r1, 0;
L: ld.acquire.gpu.global.u32 %r0, [%a0+4]; add.u32 %r1, %r1, 1; setp.eq.u32 %p1, %r0, 5; @%p1 bra L;
st.global.u32 [%a0], %r1;"""
    (finding,) = launch_body(body, [words], budget=50_000).findings
    assert finding.kind == "runaway"
    assert "ran 50000 warp instructions without coming to its end: warp 0 reads byte 4 of argument 0" in finding.message
    assert finding.message.endswith("it holds 5")
