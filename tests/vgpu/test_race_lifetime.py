"""mbarriers and shared memory over their lifetime: initialisation, split phases, blocks of a cluster that leave."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

WAIT = "W{n}: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r21], {parity}; @!%p7 bra W{n};"
HEAD = """.shared .align 128 .b8 tile[2048]; .shared .align 8 .b64 bar;
mov.u32 %r20, tile; mov.u32 %r21, bar; setp.eq.u32 %p0, %t, 0; shl.b32 %r0, %t, 2; add.u32 %r1, %r20, %r0;
"""


def run(launch_body, body, block=128, mode="eager", **options):
    options.setdefault("checks", {"race"})
    return launch_body(body, [np.zeros(1024, np.uint32)], block=block, mode=mode, **options)


def kinds(report):
    return {f.kind for f in report.findings}


# --- initialisation -----------------------------------------------------------------------------------------------
LOAD = f"""{HEAD} @%p0 mbarrier.init.shared::cta.b64 [%r21], 1;
{{fence}}
bar.sync 0;
{{late}}
@!%p0 bra GO;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], 2048;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%a0], 2048, [%r21];
GO: {WAIT.format(n=0, parity=0)}
ld.shared.u32 %r2, [%r1];"""


@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize(
    ("fence", "late"),
    [
        ("@%p0 fence.mbarrier_init.release.cluster;", ""),
        ("@%p0 fence.proxy.async.shared::cta;", ""),
        ("fence.mbarrier_init.release.cluster;", ""),
        ("", "fence.proxy.async;"),
        ("", "@%p0 fence.proxy.async;"),
    ],
)
def test_a_fenced_initialisation(launch_body, fence, late, mode):
    report = run(launch_body, LOAD.format(fence=fence, late=late), mode=mode)
    assert report.ok, str(report)


# Operations on an mbarrier are none of the async proxy: what orders the initialisation before the issue of a transfer
# is enough. Inside a block that is bar.sync, or program order.
@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize("order", ["bar.sync 0;", ""])
def test_a_barrier_orders_an_initialisation_before_a_transfer(launch_body, order, mode):
    body = LOAD.format(fence="", late="")
    if not order:  # the thread that initialised it issues the transfer, and the others come to know of it at a barrier
        body = body.replace("bar.sync 0;", "").replace("GO:", "GO: bar.sync 0;")
    report = run(launch_body, body, mode=mode)
    assert report.ok, str(report)


def test_an_initialisation_that_nothing_orders_before_a_transfer(launch_body):
    body = LOAD.format(fence="", late="").replace("setp.eq.u32 %p0", "setp.eq.u32 %p6, %t, 64; setp.eq.u32 %p0")
    body = body.replace("bar.sync 0;", "").replace("@!%p0 bra GO", "@!%p6 bra GO")
    report = run(launch_body, body)
    assert "race" in kinds(report), str(report)


# Across a cluster the initialisation must be released: fence.mbarrier_init does so in front of a relaxed arrival.
REMOTE_INIT = f"""{HEAD} @%p0 mbarrier.init.shared::cta.b64 [%r21], 1;
{{fence}}
barrier.cluster.arrive{{order}}.aligned; barrier.cluster.wait.acquire.aligned;
mov.u32 %r3, %cluster_ctarank; mapa.shared::cluster.u32 %r4, %r20, 1; mapa.shared::cluster.u32 %r5, %r21, 1;
setp.eq.u32 %p2, %r3, 0; and.pred %p1, %p0, %p2; @!%p1 bra GO;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%a0], 2048, [%r5];
GO: @%p2 bra END;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], 2048;
{WAIT.format(n=0, parity=0)}
ld.shared.u32 %r2, [%r1];
END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""


@pytest.mark.parametrize(
    ("fence", "order", "found"),
    [
        ("", "", set()),
        ("", ".release", set()),
        ("@%p0 fence.mbarrier_init.release.cluster;", ".relaxed", set()),
        ("@%p0 fence.acq_rel.cluster;", ".relaxed", set()),
        ("@%p0 fence.acq_rel.cta;", ".relaxed", {"race"}),
        ("@%p0 fence.proxy.async;", ".relaxed", {"race"}),
        ("", ".relaxed", {"race"}),
    ],
)
def test_an_initialisation_for_another_block(launch_body, fence, order, found):
    body = REMOTE_INIT.format(fence=fence, order=order)
    report = run(launch_body, body, grid=2, cluster=2)
    assert kinds(report) == found, str(report)


def test_a_second_initialisation(launch_body):
    body = f"""{HEAD} @%p0 mbarrier.init.shared::cta.b64 [%r21], 1;
{{inval}}
@%p0 mbarrier.init.shared::cta.b64 [%r21], 2;"""
    report = run(launch_body, body.format(inval=""))
    assert kinds(report) == {"mbarrier"}
    assert "initialised again, after PTX line" in report.findings[0].message
    assert run(launch_body, body.format(inval="@%p0 mbarrier.inval.shared::cta.b64 [%r21];")).ok


# --- phases -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "arrive",
    [
        "mbarrier.arrive.shared::cta.b64 _, [%r21];",
        "cp.async.ca.shared.global [%r1], [%a0], 4; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r21];",
    ],
)
@pytest.mark.parametrize("mode", vgpu.MODES)
def test_arrivals_of_one_instruction_in_two_phases(launch_body, arrive, mode):
    body = f"{HEAD} @%p0 mbarrier.init.shared::cta.b64 [%r21], {{count}};\nbar.sync 0;\n{arrive}\n"
    ends = WAIT.format(n=0, parity=0)
    assert run(launch_body, body.format(count=128) + ends, mode=mode).ok
    report = run(launch_body, body.format(count=127) + ends, mode=mode)
    assert "mbarrier" in kinds(report)
    texts = [f.message for f in report.findings if f.kind == "mbarrier"]
    assert any("fall into two phases: more arrive than its count of 127" in text for text in texts)


# --- scopes -------------------------------------------------------------------------------------------------------
# Block 0 publishes [a0] by a flag at [a0+4], block 1 reads it behind a relaxed read of the flag and a fence.
FENCE = """setp.ne.u32 %p0, %t, 0; @%p0 bra END; mov.u32 %r0, %ctaid.x; setp.ne.u32 %p1, %r0, 0; @%p1 bra READER;
st.global.u32 [%a0], 7; st.release.gpu.global.u32 [%a0+4], 1; bra END;
READER: ld.relaxed.gpu.global.u32 %r1, [%a0+4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra READER;
fence.acq_rel.SCOPE; ld.global.u32 %r2, [%a0];
END:"""


@pytest.mark.parametrize(("scope", "found"), [("gpu", set()), ("sys", set()), ("cta", {"race"})])
def test_a_fence_acquires_within_its_scope(launch_body, scope, found):
    assert kinds(run(launch_body, FENCE.replace("SCOPE", scope), grid=2)) == found


def test_a_relaxed_cluster_barrier_releases_what_a_fence_did(launch_body):
    body = f"""{HEAD} mapa.shared::cluster.u32 %r2, %r1, 0; st.shared.u32 [%r1], 3;
{{fence}} barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
ld.shared::cluster.u32 %r3, [%r2];
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    assert run(launch_body, body.format(fence="fence.acq_rel.cluster;"), grid=2, cluster=2).ok
    assert kinds(run(launch_body, body.format(fence=""), grid=2, cluster=2)) == {"race"}
    assert kinds(run(launch_body, body.format(fence="fence.acq_rel.cta;"), grid=2, cluster=2)) == {"race"}


# --- blocks that leave --------------------------------------------------------------------------------------------
REMOTE = f"""{HEAD} mov.u32 %r5, %cluster_ctarank; xor.b32 %r6, %r5, 1; mapa.shared::cluster.u32 %r2, %r1, %r6;
st.shared.u32 [%r1], %t;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
{{access}}
{{leave}}"""
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
READ, WRITE = "ld.shared::cluster.u32 %r3, [%r2];", "st.shared::cluster.u32 [%r2], 7;"


@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize("access", [READ, WRITE])
def test_blocks_that_meet_before_they_leave(launch_body, access, mode):
    report = run(launch_body, REMOTE.format(access=access, leave=MEET), grid=2, cluster=2, mode=mode)
    assert report.ok, str(report)


@pytest.mark.parametrize("access", [READ, WRITE])
def test_a_block_that_leaves_while_another_one_may_access_its_memory(launch_body, access):
    report = run(launch_body, REMOTE.format(access=access, leave="bar.sync 1;"), grid=2, cluster=2)
    assert kinds(report) == {"race"}
    assert any("their shared memory ends" in f.message for f in report.findings)


def test_an_access_to_the_memory_of_a_block_that_left(launch_body):
    slow = "setp.eq.u32 %p3, %r5, 1; @%p3 bra END;" + "bar.sync 0;" * 64 + f"{READ}\nEND:"
    report = run(launch_body, REMOTE.format(access=slow, leave=""), grid=2, cluster=2, checks=())
    assert kinds(report) == {"illegal"}
    assert "access to the shared memory of block rank 1, which has left the kernel" in report.findings[0].message
