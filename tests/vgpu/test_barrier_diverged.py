"""Barriers of warps whose threads come apart: counts, and bar.warp.sync in several places of the program."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

OUT = "mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r9;"


@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize("count", ["", ", 64"])
def test_a_diverged_warp_with_exited_lanes_completes_a_barrier(launch_body, mode, count):
    # lanes 0-1 of warp 0 leave, the others arrive in two parts, from two places
    body = f""".shared .align 4 .u32 s[64]; mov.u32 %r1, s; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2;
setp.lt.u32 %p1, %t, 2; @%p1 ret;
st.shared.u32 [%r1], %t;
setp.lt.u32 %p2, %t, 16; @%p2 bra LOW;
barrier.cta.sync 1{count}; bra.uni MET;
LOW: barrier.cta.sync 1{count};
MET: xor.b32 %r3, %t, 32; setp.lt.u32 %p3, %r3, 2; @%p3 mov.u32 %r9, 99; @%p3 bra STORE;
mov.u32 %r4, s; shl.b32 %r3, %r3, 2; add.u32 %r4, %r4, %r3; ld.shared.u32 %r9, [%r4];
STORE: {OUT}"""
    out = np.zeros(64, np.uint32)
    report = launch_body(body, [out], block=64, mode=mode, checks=("race",))
    assert report.ok, str(report)
    expected = np.arange(64) ^ 32
    expected[:2], expected[32:34] = 0, 99
    assert out.tolist() == expected.tolist()


def test_lanes_that_leave_while_others_wait_complete_a_counted_barrier(launch_body):
    # lanes 16-31 stand at the barrier when lanes 0-15, which never come to it, leave
    body = f"""setp.lt.u32 %p1, %t, 16; @%p1 bra LATE; barrier.cta.sync 1, 64; mov.u32 %r9, 5; {OUT} ret;
LATE: nanosleep.u32 20;"""
    out = np.zeros(64, np.uint32)
    report = launch_body(body, [out], block=64)
    assert report.ok, str(report)
    assert out.tolist() == [0] * 16 + [5] * 48


def test_parts_do_not_count_as_a_whole_warp_before_all_came(launch_body):
    body = """setp.lt.u32 %p1, %t, 16; setp.ge.u32 %p2, %t, 32; @%p2 bra SECOND; @%p1 bra END; barrier.cta.sync 1, 64;
END: bar.warp.sync 0xffffffff; ret;
SECOND: barrier.cta.sync 1, 64;"""
    report = launch_body(body, [], block=64)
    assert [f.kind for f in report.findings] == ["deadlock"]
    assert "48 of 64 threads arrived" in report.findings[0].message


# Even lanes write and then read what the odd ones wrote, each in its own branch.
BRANCHES = f""".shared .align 4 .u32 s[32]; mov.u32 %r1, s; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2;
xor.b32 %r3, %r1, 4;
and.b32 %r4, %t, 1; setp.eq.u32 %p1, %r4, 1; @%p1 bra ODD;
st.shared.u32 [%r1], %t; bar.warp.sync 0xffffffff; ld.shared.u32 %r9, [%r3]; bra.uni END;
ODD: add.u32 %r5, %t, 100; st.shared.u32 [%r1], %r5; bar.warp.sync 0xffffffff; ld.shared.u32 %r9, [%r3];
END: {OUT}"""


@pytest.mark.parametrize("mode", vgpu.MODES)
def test_bar_warp_sync_meets_in_two_places(launch_body, mode):
    out = np.zeros(32, np.uint32)
    report = launch_body(BRANCHES, [out], mode=mode, checks=("race",))
    assert report.ok, str(report)
    assert out.tolist() == [t - 1 if t % 2 else t + 101 for t in range(32)]


def test_without_bar_warp_sync_the_branches_race(launch_body):
    out = np.zeros(32, np.uint32)
    report = launch_body(BRANCHES.replace("bar.warp.sync 0xffffffff;", ""), [out], checks=("race",))
    assert "race" in {f.kind for f in report.findings}


def test_lanes_that_left_are_not_waited_for_by_bar_warp_sync(launch_body):
    body = f"""setp.lt.u32 %p1, %t, 16; @!%p1 bra WAIT; nanosleep.u32 20; ret;
WAIT: bar.warp.sync 0xffffffff; mov.u32 %r9, 3; {OUT}"""
    out = np.zeros(32, np.uint32)
    report = launch_body(body, [out])
    assert report.ok, str(report)
    assert out.tolist() == [0] * 16 + [3] * 16


def test_two_member_masks_in_several_places(launch_body):
    # lanes 0-7 and 16-23 come together, 8-15 and 24-31 each alone; members are the halves of the warp
    body = f"""setp.lt.u32 %p1, %t, 16; selp.b32 %r1, 65535, 4294901760, %p1;
and.b32 %r2, %t, 8; setp.eq.u32 %p2, %r2, 0; @%p2 bra FIRST; @%p1 bra SECOND;
bar.warp.sync %r1; mov.u32 %r9, 3; bra.uni END;
SECOND: bar.warp.sync %r1; mov.u32 %r9, 2; bra.uni END;
FIRST: bar.warp.sync %r1; mov.u32 %r9, 1;
END: {OUT}"""
    out = np.zeros(32, np.uint32)
    report = launch_body(body, [out])
    assert report.ok, str(report)
    assert out.tolist() == ([1] * 8 + [2] * 8) + ([1] * 8 + [3] * 8)


def test_bar_warp_sync_of_a_lane_that_never_comes(launch_body):
    body = """setp.lt.u32 %p1, %t, 16; @%p1 bra LOW; bar.warp.sync 0xffffffff; ret;
LOW: bar.sync 1, 64;"""
    report = launch_body(body, [])
    assert [f.kind for f in report.findings] == ["deadlock"]
    assert "bar.warp.sync 0xffffffff" in report.findings[0].message
