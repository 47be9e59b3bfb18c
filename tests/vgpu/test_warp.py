from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

LANES = np.arange(32, dtype=np.uint32)


@pytest.mark.parametrize(("mode", "b", "c", "source"), [
    ("up", 3, 0, lambda lane: lane - 3 if lane >= 3 else lane),
    ("down", 5, 31, lambda lane: lane + 5 if lane + 5 < 32 else lane),
    ("bfly", 9, 31, lambda lane: lane ^ 9),
    ("idx", 7, 31, lambda lane: 7),
    ("bfly", 1, 0x1C1F, lambda lane: lane ^ 1),
    ("idx", 2, 0x181F, lambda lane: (lane & 24) + 2),
    ("down", 2, 0x181F, lambda lane: lane + 2 if (lane & 7) < 6 else lane),
])  # fmt: skip
def test_shuffles(elementwise, mode, b, c, source):
    values = (LANES * 3 + 1).astype(np.uint32)
    got = elementwise(f"shfl.sync.{mode}.b32 %y|%p1, %x0, {b}, {c}, -1;", [values], np.uint32)
    assert got.tolist() == [int(values[source(lane)]) for lane in range(32)]


def test_votes_match_and_redux(elementwise):
    body = "setp.lt.u32 %p1, %x0, 5; vote.sync.ballot.b32 %y, %p1, -1;"
    assert set(elementwise(body, [LANES], np.uint32).tolist()) == {31}
    body = """setp.lt.u32 %p1, %x0, 5; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1;
        selp.u32 %r1, 1, 0, %p2; selp.u32 %y, 2, %r1, %p3;"""
    assert set(elementwise(body, [LANES], np.uint32).tolist()) == {1}
    thirds = (LANES % 3).astype(np.uint32)
    want = [sum(1 << k for k in range(32) if k % 3 == lane % 3) for lane in range(32)]
    assert elementwise("match.any.sync.b32 %y, %x0, -1;", [thirds], np.uint32).tolist() == want
    assert set(elementwise("redux.sync.add.u32 %y, %x0, -1;", [LANES], np.uint32).tolist()) == {496}
    signed = (LANES.astype(np.int32) - 16).astype(np.int32)
    assert set(elementwise("redux.sync.min.s32 %y, %x0, -1;", [signed], np.int32).tolist()) == {-16}


def test_elect_and_lane_registers(launch_body):
    out = np.zeros(32, np.uint32)
    body = """mov.u32 %r3, 0; elect.sync %r0|%p1, -1; @%p1 mov.u32 %r3, 1; mov.u32 %r1, %laneid;
        mov.u32 %r2, %lanemask_lt; popc.b32 %r4, %r2;
        mad.lo.u32 %r5, %r3, 1000, %r4; add.u32 %r5, %r5, %r1; mad.wide.u32 %d0, %t, 4, %a0;
        st.global.u32 [%d0], %r5;"""
    assert launch_body(body, [out]).ok
    assert out.tolist() == [1000 if lane == 0 else 2 * lane for lane in range(32)]


def test_a_shuffle_waits_for_lanes_that_come_later(launch_body):
    out = np.zeros(32, np.uint32)
    body = """setp.lt.u32 %p1, %t, 16; mov.u32 %r0, 1; @!%p1 bra LATE; mov.u32 %r0, 2; bra JOIN;
LATE: mov.u32 %r0, 3;
JOIN: shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1; mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r1;"""
    report = launch_body(body, [out])
    assert report.ok, str(report)
    assert out.tolist() == [3] * 16 + [2] * 16


def test_missing_members_are_a_deadlock(make_kernel):
    ptx = make_kernel(
        "setp.lt.u32 %p1, %t, 16; @%p1 bra A;\nloop: bra loop2;\nloop2: bar.sync 0; ret;"
        "\nA: shfl.sync.bfly.b32 %r1, %t, 1, 31, -1;",
        0,
    )
    report = vgpu.launch(ptx, "k", 1, 32, [], target="sm_80")
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    assert "for shfl.sync 0xffffffff" in finding.message


def test_not_in_its_own_member_mask(launch_body):
    report = launch_body("shfl.sync.idx.b32 %r1, %t, 0, 31, 0xffff;", [])
    assert report.findings[0].kind == "illegal"
    assert "member mask 0xffff" in report.findings[0].message
