"""Deadlock reports: who waits for what, and which arrival is missing."""

from __future__ import annotations

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
