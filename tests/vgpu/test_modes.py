from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

# Copies 128 words through shared memory by cp.async and adds them up crosswise.
CP_ASYNC = """.shared .align 16 .b8 s[512];
shl.b32 %r0, %t, 2; mov.u32 %r1, s; add.u32 %r2, %r1, %r0; mad.wide.u32 %d0, %t, 4, %a0;
cp.async.ca.shared.global [%r2], [%d0], 4; cp.async.commit_group;
cp.async.wait_group 0;
bar.sync 0;
xor.b32 %r3, %r0, 508; add.u32 %r3, %r3, %r1; ld.shared.u32 %r4, [%r3];
mad.wide.u32 %d1, %t, 4, %a1; st.global.u32 [%d1], %r4;"""


def run(launch_body, body, mode, seed=0):
    source, out = np.arange(128, dtype=np.uint32) * 3, np.zeros(128, np.uint32)
    report = launch_body(body, [source, out], block=128, mode=mode, seed=seed)
    return report, np.array_equal(out, source[::-1])


@pytest.mark.parametrize("mode", vgpu.MODES)
def test_a_right_kernel_is_right_in_every_mode(launch_body, mode):
    report, right = run(launch_body, CP_ASYNC, mode)
    assert report.ok, str(report)
    assert right


def test_eager_alone_does_not_see_a_missing_wait(launch_body):
    body = CP_ASYNC.replace("cp.async.wait_group 0;", "").replace("st.global", "cp.async.wait_all; st.global")
    report, right = run(launch_body, body, "eager")
    assert report.ok
    assert right
    for mode in ("lazy", "lazy-reverse"):
        report, right = run(launch_body, body, mode)
        assert [f.kind for f in report.findings] == ["uninitialized-shared"]
        assert not right


# Thread 0 stores the words of shared memory in bulk; then every thread reads one back from global memory.
STORE = """.shared .align 16 .b8 s[512];
shl.b32 %r0, %t, 2; mov.u32 %r1, s; add.u32 %r2, %r1, %r0; mad.lo.u32 %r3, %t, 7, 1; st.shared.u32 [%r2], %r3;
fence.proxy.async.shared::cta; setp.eq.u32 %p0, %t, 0;
bar.sync 0; @!%p0 bra WAITED;
cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r1], 512; cp.async.bulk.commit_group;
cp.async.bulk.wait_group{read} 0;
WAITED: bar.sync 0; mov.u32 %r5, 0; st.shared.u32 [%r2], %r5;
mad.wide.u32 %d0, %t, 4, %a0; ld.global.u32 %r4, [%d0]; mad.wide.u32 %d1, %t, 4, %a1; st.global.u32 [%d1], %r4;"""


@pytest.mark.parametrize("mode", vgpu.MODES)
def test_a_wait_for_the_reads_of_a_bulk_store_leaves_its_writes_outstanding(launch_body, mode):
    wanted = np.arange(128, dtype=np.uint32) * 7 + 1
    for read, finished in (("", True), (".read", mode not in ("lazy", "lazy-reverse", "random"))):
        target, seen = np.zeros(128, np.uint32), np.zeros(128, np.uint32)
        report = launch_body(STORE.format(read=read), [target, seen], block=128, mode=mode)
        assert report.ok, str(report)
        assert np.array_equal(target, wanted)  # at the latest when the grid ends, though the source was written over
        assert np.array_equal(seen, wanted) == finished
        report = launch_body(STORE.format(read=read), [target, seen], block=128, mode=mode, checks={"race"})
        assert {f.kind for f in report.findings} == ({"race"} if read else set())


def test_many_bulk_stores_that_nobody_waits_for(launch_body):
    """More than the engine keeps outstanding; the sums do not depend on when each of them is written."""
    body = (
        STORE[: STORE.index("bar.sync 0;")]
        + """bar.sync 0; @!%p0 bra END; mov.u32 %r6, 0;
L: cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a0], [%r1], 512; cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 200; @%p1 bra L;
END: bar.sync 0;"""
    )
    for mode in ("eager", "lazy", "random"):
        target = np.zeros(128, np.uint32)
        assert launch_body(body, [target], block=128, mode=mode).ok
        assert np.array_equal(target, 200 * (np.arange(128) * 7 + 1))


def test_work_left_at_exit(launch_body):
    body = CP_ASYNC.replace("cp.async.wait_group 0;", "")
    report, _ = run(launch_body, body, "eager")
    assert [f.kind for f in report.findings] == ["unfinished-work"]
    assert "left the kernel with cp.async in flight" in report.findings[0].message


def test_random_is_reproducible_by_its_seed(launch_body):
    order = """atom.global.add.u32 %r0, [%a0], 1; mad.wide.u32 %d0, %t, 4, %a1; st.global.u32 [%d0], %r0;"""
    seen = []
    for seed in (1, 1, 2, 3):
        out = np.zeros(256, np.uint32)
        assert launch_body(order, [np.zeros(1, np.uint32), out], block=256, mode="random", seed=seed).ok
        seen.append(out.tolist())
    assert seen[0] == seen[1]
    assert len({tuple(s) for s in seen}) > 1
