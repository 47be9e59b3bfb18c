"""Races of asynchronous work: cp.async, bulk copies through mbarriers, wgmma, bulk stores, and the proxy fence."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

HEAD = """.shared .align 1024 .b8 tile[16384]; .shared .align 8 .b8 bars[64];
mov.u32 %r20, tile; mov.u32 %r21, bars; setp.eq.u32 %p0, %t, 0;
shl.b32 %r0, %t, 4; add.u32 %r1, %r20, %r0; mul.wide.u32 %d0, %t, 16; add.s64 %d1, %a0, %d0; add.s64 %d2, %a1, %d0;
"""


def wait(label: str, address: str, parity: str) -> str:
    return (
        f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p7, [{address}], {parity};\n"
        f"@%p7 bra {label}_DONE;\nbra {label};\n{label}_DONE:\n"
    )


# Two stages of 2048 bytes; each round every thread copies 16 bytes and reads those of the mirrored thread.
CP_ASYNC = f"""{HEAD} mov.u32 %r5, 0; sub.u32 %r6, 127, %t; shl.b32 %r6, %r6, 4; add.u32 %r6, %r6, %r20;
mov.u32 %r12, 0;
cp.async.cg.shared.global [%r1], [%d1], 16;
cp.async.commit_group;
LOOP: and.b32 %r7, %r5, 1; xor.b32 %r8, %r7, 1; shl.b32 %r7, %r7, 11; shl.b32 %r8, %r8, 11; add.u32 %r8, %r8, %r1;
cp.async.cg.shared.global [%r8], [%d1+2048], 16;
cp.async.commit_group;
cp.async.wait_group 1;
bar.sync 0;
add.u32 %r9, %r6, %r7; ld.shared.u32 %r10, [%r9]; add.u32 %r12, %r12, %r10;
bar.sync 1;
add.s64 %d1, %d1, 2048; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 5; @%p1 bra LOOP;
cp.async.wait_all;
st.global.u32 [%d2], %r12;"""

CP_ASYNC_MBARRIER = f"""{HEAD} @%p0 mbarrier.init.shared::cta.b64 [%r21], 128;
bar.sync 0;
cp.async.cg.shared.global [%r1], [%d1], 16;
cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r21];
{wait("W", "%r21", "0")}
sub.u32 %r6, 127, %t; shl.b32 %r6, %r6, 4; add.u32 %r6, %r6, %r20; ld.shared.u32 %r10, [%r6];
st.global.u32 [%d2], %r10;"""


def ring(consume: str, consumers: int = 128) -> str:
    """A ring of two slots of 4096 bytes: the last warp fills them by bulk copies, the others run ``consume``.

    %r15: address of the slot, %r16: its parity, %r17: its full barrier (empty: 16 bytes on), %r5: the round of 6.
    """
    step = """and.b32 %r14, %r5, 1; shr.u32 %r16, %r5, 1; and.b32 %r16, %r16, 1; shl.b32 %r15, %r14, 12;
add.u32 %r15, %r15, %r20; shl.b32 %r17, %r14, 3; add.u32 %r17, %r17, %r21; xor.b32 %r18, %r16, 1;
add.u32 %r19, %r17, 16;"""
    return f"""{HEAD} mov.u32 %r5, 0; mov.u32 %r12, 0;
@!%p0 bra READY;
mbarrier.init.shared::cta.b64 [%r21], 1; mbarrier.init.shared::cta.b64 [%r21+8], 1;
mbarrier.init.shared::cta.b64 [%r21+16], {consumers}; mbarrier.init.shared::cta.b64 [%r21+24], {consumers};
fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
setp.ge.u32 %p1, %t, {consumers}; @!%p1 bra CONSUMER;
setp.eq.u32 %p2, %t, {consumers}; @!%p2 bra END;
PRODUCE: {step}
{wait("EMPTY", "%r19", "%r18")}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r17], 4096;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r15], [%a0], 4096, [%r17];
add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 6; @%p3 bra PRODUCE; bra END;
CONSUMER: {step}
{wait("FULL", "%r17", "%r16")}
{consume}
add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 6; @%p3 bra CONSUMER;
st.global.u32 [%d2], %r12;
END:"""


LOADS = """add.u32 %r9, %r15, %r0; ld.shared.u32 %r10, [%r9]; add.u32 %r12, %r12, %r10;
mbarrier.arrive.shared::cta.b64 _, [%r19];"""
WGMMA = """shr.u32 %r9, %r15, 4; cvt.u64.u32 %d5, %r9; or.b64 %d5, %d5, 34359738368; or.b64 %d5, %d5, 8388608;
setp.eq.u32 %p4, %r5, %r5;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d5, %d5, %p4, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mbarrier.arrive.shared::cta.b64 _, [%r19];"""

STORE = f"""{HEAD} st.shared.v4.u32 [%r1], {{%t, %t, %t, %t}};
fence.proxy.async.shared::cta;
bar.sync 0;
@!%p0 bra WAITED;
cp.async.bulk.global.shared::cta.bulk_group [%a1], [%r20], 2048;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
WAITED: bar.sync 1;
st.shared.u32 [%r1], 5;
@%p0 cp.async.bulk.wait_group 0;"""


def run(launch_body, body, mode="eager", block=128, checks=("race",)):
    source = np.random.default_rng(0).integers(0, 1000, 8192).astype(np.uint32)
    return launch_body(body, [source, np.zeros(4096, np.uint32)], block=block, mode=mode, checks=checks)


def kinds(report):
    return {f.kind for f in report.findings}


KERNELS = [(CP_ASYNC, 128), (CP_ASYNC_MBARRIER, 128), (ring(LOADS), 160), (ring(WGMMA), 160), (STORE, 128)]


@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize(("body", "block"), KERNELS)
def test_correct_kernels(launch_body, body, block, mode):
    report = run(launch_body, body, mode, block)
    assert report.ok, str(report)


MUTANTS = [
    (CP_ASYNC, 128, "cp.async.wait_group 1;", ""),
    (CP_ASYNC, 128, "cp.async.wait_group 1;", "cp.async.wait_group 2;"),
    (CP_ASYNC, 128, "bar.sync 0;", ""),
    (CP_ASYNC, 128, "bar.sync 1;", ""),
    (CP_ASYNC_MBARRIER, 128, wait("W", "%r21", "0"), ""),
    (CP_ASYNC_MBARRIER, 128, "cp.async.mbarrier.arrive.noinc", "mbarrier.arrive"),
    (ring(LOADS), 160, wait("FULL", "%r17", "%r16"), ""),
    (ring(LOADS), 160, wait("EMPTY", "%r19", "%r18"), ""),
    (ring(LOADS), 160, wait("EMPTY", "%r19", "%r18"), wait("EMPTY", "%r19", "%r16")),
    (ring(WGMMA), 160, wait("FULL", "%r17", "%r16"), ""),
    (ring(WGMMA), 160, "wgmma.wait_group.sync.aligned 0;", ""),
    (ring(WGMMA), 160, "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"),
    (STORE, 128, "cp.async.bulk.wait_group.read 0;", ""),
    (STORE, 128, "bar.sync 0;", ""),
    (STORE, 128, "bar.sync 1;", ""),
]


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize(("body", "block", "old", "new"), MUTANTS)
def test_mutants(launch_body, body, block, old, new, mode):
    assert old in body
    changed = body.replace(old, new)
    if new.startswith("mbarrier.arrive"):
        changed = changed.replace("mbarrier.arrive.shared::cta.b64 [%r21]", "mbarrier.arrive.shared::cta.b64 _, [%r21]")
    report = run(launch_body, changed, mode, block)
    # A ring that runs away is stopped by its phases before anything races.
    stopped = {"deadlock", "mbarrier"} if "EMPTY" in old or "FULL" in old else set()
    assert kinds(report) & {"race", *stopped}, str(report)


def test_a_slot_released_before_it_is_read(launch_body):
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r19];"
    early = LOADS.replace(arrive, "")
    report = run(launch_body, ring(f"{arrive}\n{early}"), block=160)
    (finding,) = [f for f in report.findings if f.kind == "race"]
    assert "asynchronous write by bulk.load is not ordered after the read by ld.shared" in finding.message


def test_a_slot_overwritten_before_wgmma_ends(launch_body):
    report = run(launch_body, ring(WGMMA.replace("wgmma.wait_group.sync.aligned 0;", "")), block=160)
    (finding,) = [f for f in report.findings if f.kind == "race"]
    assert "write by bulk.load is not ordered after the asynchronous read by wgmma.mma_async" in finding.message
    assert finding.warp == 4
    assert finding.other.warp < 4


def test_the_proxy_fence_must_follow_the_writes(launch_body):
    """Only with clocks is a fence of a thread that the writes are not ordered before told from a right one."""
    elected = STORE.replace("fence.proxy.async.shared::cta;\nbar.sync 0;\n@!%p0 bra WAITED;",
                            "bar.sync 0;\n@!%p0 bra WAITED;\nfence.proxy.async.shared::cta;")  # fmt: skip
    assert run(launch_body, elected).ok
    wrong = STORE.replace("fence.proxy.async.shared::cta;", "@%p0 fence.proxy.async.shared::cta;")
    report = run(launch_body, wrong, "skew-reverse")
    assert kinds(report) == {"proxy-fence"}
    assert report.findings[0].other.ptx.startswith(".shared") or "st.shared" in report.findings[0].other.ptx
    assert run(launch_body, wrong, "skew-reverse", checks=()).ok


def test_tensor_stores_race_with_other_blocks(launch_body):
    report = launch_body(
        STORE, [np.zeros(64, np.uint32), np.zeros(4096, np.uint32)], block=128, grid=2, checks=["race"]
    )
    (finding,) = report.findings
    assert "of argument 1" in finding.message
    assert "asynchronous write by bulk.store" in finding.message


def test_reductions_do_not_race(launch_body):
    body = STORE.replace("cp.async.bulk.global.shared::cta.bulk_group",
                         "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32")  # fmt: skip
    report = launch_body(body, [np.zeros(64, np.uint32), np.zeros(4096, np.uint32)], block=128, grid=2, checks=["race"])
    assert report.ok, str(report)
