"""wgmma as an operation of four warps: registers and fences, and when its groups are complete."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

# A and B: the same 64 x 16 and 8 x 16 tile of ones without swizzle, so that D grows by 16 in every wgmma.
HEAD = """.shared .align 1024 .b8 tile[4096]; .shared .align 8 .b64 bar;
mov.u32 %r20, tile; mov.u32 %r21, bar; setp.eq.u32 %p0, %t, 0; setp.eq.u32 %p4, %t, %t;
shl.b32 %r0, %t, 4; add.u32 %r1, %r20, %r0; mov.u32 %r2, 1006648320;
st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2};
st.shared.v4.b32 [%r1+2048], {%r2, %r2, %r2, %r2};
@%p0 mbarrier.init.shared::cta.b64 [%r21], 1;
fence.proxy.async.shared::cta;
bar.sync 0;
shr.u32 %r9, %r20, 4; cvt.u64.u32 %d5, %r9; or.b64 %d5, %d5, 34359738368; or.b64 %d5, %d5, 8388608;
mov.f32 %f0, 0f3F800000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
"""
FENCE = "wgmma.fence.sync.aligned;\n"
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d5, %d5, %p4, 1, 1, 0, 0;\n"
COMMIT, WAIT = "wgmma.commit_group.sync.aligned;\n", "wgmma.wait_group.sync.aligned 0;\n"
STORE = "mul.wide.u32 %d0, %t, 4; add.s64 %d0, %d0, %a0; add.f32 %f0, %f0, %f3; st.global.f32 [%d0], %f0;\n"


def run(launch_body, body, mode="eager", checks=("race",)):
    out = np.zeros(128, np.float32)
    return launch_body(HEAD + body, [out], block=128, mode=mode, checks=checks), out


@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize(
    ("between", "result"),
    [
        ("", 66.0),  # accumulators between wgmma of one shape
        ("mov.f32 %f10, %f0; mov.f32 %f0, %f10;\n", 66.0),  # a copy of fenced values
        ("add.f32 %f0, %f0, 0f3F800000;\n" + FENCE, 67.0),
    ],
)
def test_registers_behind_a_fence(launch_body, between, result, mode):
    report, out = run(launch_body, FENCE + MMA + COMMIT + WAIT + between + MMA + COMMIT + WAIT + STORE, mode)
    assert report.ok, str(report)
    assert set(out.tolist()) == {result}


@pytest.mark.parametrize(
    "between",
    [
        "add.f32 %f0, %f0, 0f3F800000;\n",
        "mov.f32 %f3, 0f00000000;\n",
        "add.f32 %f10, %f0, %f0; mov.f32 %f1, %f10;\n",
        "@%p0 bra SKIP;\nadd.f32 %f0, %f0, %f0;\nSKIP:\n",
    ],
)
def test_a_register_written_behind_the_fence(launch_body, between):
    report, _ = run(launch_body, FENCE + MMA + COMMIT + WAIT + between + MMA + COMMIT + WAIT + STORE, checks=())
    assert [f.kind for f in report.findings] == ["illegal"]
    assert "a register that was written behind the last wgmma.fence" in report.findings[0].message


def test_a_write_behind_the_fence_at_the_end_of_a_loop(launch_body):
    body = f"""mov.u32 %r5, 0;
{FENCE}
LOOP: {MMA}{COMMIT}{WAIT}
mul.f32 %f0, %f0, %f0; add.u32 %r5, %r5, 1; setp.lt.u32 %p5, %r5, 3; @%p5 bra LOOP;
{STORE}"""
    report, _ = run(launch_body, body, checks=())
    assert [f.kind for f in report.findings] == ["illegal"]
    fenced = body.replace("LOOP: ", "LOOP: " + FENCE)
    assert run(launch_body, fenced, checks=())[0].ok


# One thread of the first warp speaks for the warpgroup: what its wait waited for is complete for all four warps.
RELEASE = f"""{FENCE}{MMA}{COMMIT}{WAIT}
@%p0 mbarrier.arrive.shared::cta.b64 _, [%r21];
setp.ge.u32 %p5, %t, 128; @!%p5 bra DONE;
W: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r21], 0; @!%p7 bra W;
st.shared.v4.b32 [%r1+-2048], {{%r0, %r0, %r0, %r0}};
bra.uni END;
DONE: {STORE}
END:"""


def release(launch_body, body, mode, checks):
    head = HEAD.replace("add.u32 %r1, %r20, %r0;", "add.u32 %r1, %r20, %r0; setp.ge.u32 %p6, %t, 128;")
    for line in ("st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2};", "st.shared.v4.b32 [%r1+2048], {%r2, %r2, %r2, %r2};"):
        head = head.replace(line, f"@!%p6 {line}")
    out = np.zeros(128, np.float32)
    start = "@%p6 bra WRITER;\n"
    body = body.replace("setp.ge.u32 %p5, %t, 128; @!%p5 bra DONE;\nW:", "bra.uni DONE;\nWRITER:\nW:")
    return launch_body(head + start + body, [out], block=256, mode=mode, checks=checks), out


@pytest.mark.parametrize("mode", vgpu.MODES)
def test_one_thread_releases_a_slot_for_its_warpgroup(launch_body, mode):
    report, out = release(launch_body, RELEASE, mode, ("race",))
    assert report.ok, str(report)
    assert set(out.tolist()) == {34.0}


@pytest.mark.parametrize("mode", vgpu.MODES)
def test_a_slot_released_before_the_group_is_complete(launch_body, mode):
    early = RELEASE.replace(WAIT, WAIT.replace(" 0;", " 1;")).replace("DONE:", f"DONE: {WAIT}")
    report, _ = release(launch_body, early, mode, ("race",))
    assert "race" in {f.kind for f in report.findings}


def test_a_warp_that_never_issues(launch_body):
    body = f"setp.ge.u32 %p5, %t, 96; @%p5 bra LAST;\n{FENCE}{MMA}{COMMIT}{WAIT}{STORE}ret;\nLAST: bar.sync 1, 64;"
    report, _ = run(launch_body, body, checks=())
    assert [f.kind for f in report.findings] == ["deadlock"]
    assert "wgmma of the warpgroup" in report.findings[0].message
