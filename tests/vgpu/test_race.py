"""Race detection of threads: barriers, mbarriers, atomics, flags, clusters and lanes; correct kernels and mutants."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu
from tilewright.vgpu.errors import LaunchError

SLOT = "shl.b32 %r0, %t, 2; mov.u32 %r1, s; add.u32 %r2, %r1, %r0;"  # %r2: word of the thread in s
OTHER = "sub.u32 %r3, 127, %t; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1;"  # %r3: word of the mirrored thread
OUT = "mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r4;"
SHARED = ".shared .align 16 .b8 s[512]; .shared .align 8 .b64 bar;"
WAIT = "W{n}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r9], {parity}; @!%p1 bra W{n};"

REVERSE = f"""{SHARED} {SLOT} {OTHER}
st.shared.u32 [%r2], %t;
bar.sync 0;
ld.shared.u32 %r4, [%r3];
{OUT}"""

NAMED = f"""{SHARED} {SLOT} setp.lt.u32 %p1, %t, 64; @!%p1 bra CONSUMER;
st.shared.u32 [%r2], %t;
bar.arrive 1, 128;
bra END;
CONSUMER: {OTHER}
bar.sync 1, 128;
ld.shared.u32 %r4, [%r3];
{OUT}
END:"""

MBARRIER = f"""{SHARED} {SLOT} {OTHER} mov.u32 %r9, bar; setp.eq.u32 %p0, %t, 0;
@%p0 mbarrier.init.shared::cta.b64 [%r9], 128;
bar.sync 0;
st.shared.u32 [%r2], %t;
mbarrier.arrive.shared::cta.b64 _, [%r9];
{WAIT.format(n=0, parity=0)}
ld.shared.u32 %r4, [%r3];
{OUT}"""

TWO_ROUNDS = f"""{SHARED} {SLOT} {OTHER} mov.u32 %r5, 0;
AGAIN: st.shared.u32 [%r2], %r5;
bar.sync 0;
ld.shared.u32 %r4, [%r3];
bar.sync 1;
add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4; @%p1 bra AGAIN;
{OUT}"""

CLUSTER = """.shared .align 4 .u32 s; mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %ctaid.x; mov.u32 %r2, s;
st.shared.u32 [%r2], %r1;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
xor.b32 %r3, %r0, 1; mapa.shared::cluster.u32 %r5, %r2, %r3; ld.shared::cluster.u32 %r4, [%r5];
mad.wide.u32 %d0, %r1, 4, %a0; st.global.u32 [%d0], %r4;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""

# Block 0 writes data [a0] and sets the flag [a0+4]; block 1 waits for the flag and copies the data to [a0+8].
FLAG = """setp.ne.u32 %p0, %t, 0; @%p0 bra END; mov.u32 %r0, %ctaid.x; setp.ne.u32 %p1, %r0, 0; @%p1 bra READER;
st.global.u32 [%a0], 7;
{publish}
bra END;
READER:
{poll} setp.eq.u32 %p2, %r1, 0; @%p2 bra READER;
{acquire}
ld.global.u32 %r2, [%a0]; st.global.u32 [%a0+8], %r2;
END:"""
RELEASE = FLAG.format(
    publish="st.release.gpu.global.u32 [%a0+4], 1;", poll="ld.acquire.gpu.global.u32 %r1, [%a0+4];", acquire=""
)
FENCES = FLAG.format(
    publish="membar.gl;\nst.volatile.global.u32 [%a0+4], 1;",
    poll="ld.volatile.global.u32 %r1, [%a0+4];",
    acquire="fence.acq_rel.gpu;",
)
COUNTER = FLAG.format(
    publish="fence.acq_rel.gpu;\natom.global.add.u32 %r5, [%a0+4], 1;",
    poll="atom.global.add.u32 %r1, [%a0+4], 0;",
    acquire="fence.sc.gpu;",
)


def run(launch_body, body, block=128, **options):
    options.setdefault("checks", {"race"})
    return launch_body(body, [np.zeros(256, np.uint32)], block=block, **options)


def races(report):
    return [f for f in report.findings if f.kind == "race"]


@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize("body", [REVERSE, NAMED, MBARRIER, TWO_ROUNDS])
def test_correct_kernels(launch_body, body, mode):
    report = run(launch_body, body, mode=mode)
    assert report.ok, str(report)


@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize(
    ("body", "removed"),
    [
        (REVERSE, "bar.sync 0;"),
        (NAMED, "bar.sync 1, 128;"),
        (MBARRIER, WAIT.format(n=0, parity=0)),
        (TWO_ROUNDS, "bar.sync 0;"),
        (TWO_ROUNDS, "bar.sync 1;"),
    ],
)
def test_a_removed_synchronisation_is_a_race_in_every_mode(launch_body, body, removed, mode):
    assert removed in body
    report = run(launch_body, body.replace(removed, ""), mode=mode)
    assert races(report), str(report)


def test_use_of_an_mbarrier_without_a_barrier_behind_its_init(launch_body):
    report = run(launch_body, MBARRIER.replace("bar.sync 0;", ""))
    assert "mbarrier.init" in races(report)[0].message


def test_both_sides_are_named(make_kernel):
    ptx = make_kernel(".loc 1 10 0\n" + REVERSE.replace("bar.sync 0;", ".loc 1 12 0"), 1) + '.file 1 "kernel.py"\n'
    lines = ptx.splitlines()
    report = vgpu.launch(ptx, "k", (1, 3), 128, [np.zeros(128, np.uint32)], target="sm_80", checks=["race"], threads=1)
    finding = next(f for f in races(report) if "read by ld.shared" in f.message.split(" is not ")[0])
    other = finding.other
    assert lines[finding.ptx_line - 1].startswith("ld.shared")
    assert lines[other.ptx_line - 1].startswith("st.shared")
    assert (finding.kernel, finding.block, other.block) == ("k", (0, 0, 0), (0, 0, 0))
    assert str(finding.source) == "kernel.py:12"
    assert str(other.source) == "kernel.py:10"
    assert other.thread[0] == 127 - finding.thread[0]
    assert "read by ld.shared is not ordered after the write by st.shared" in finding.message
    assert "other access: block (0, 0, 0)" in str(finding)
    assert finding.to_dict()["other"]["sources"] == [{"file": "kernel.py", "line": 10}]


def test_neighbouring_bytes_are_no_race(launch_body):
    body = (
        f"{SHARED} mov.u32 %r1, s; add.u32 %r2, %r1, %t; st.shared.u8 [%r2], %t; bar.sync 0; ld.shared.u8 %r4, [%r2];"
    )
    bytes_of_lane = body.replace("add.u32 %r2, %r1, %t;", "shr.u32 %r3, %t, 5; shl.b32 %r4, %t, 2;"
                                 " and.b32 %r4, %r4, 127;"
                                 " add.u32 %r2, %r1, %r3; add.u32 %r2, %r2, %r4;")  # fmt: skip
    for text in (body, bytes_of_lane):
        report = run(launch_body, text)
        assert report.ok, str(report)


def test_a_wide_access_races_with_a_byte(launch_body):
    body = f"""{SHARED} mov.u32 %r1, s; setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 32; mov.u32 %r3, 0;
    @%p1 st.shared.v4.u32 [%r1], {{%r3, %r3, %r3, %r3}}; @%p2 st.shared.u8 [%r1+13], 9;"""
    (finding,) = races(run(launch_body, body))
    assert "shared 0xd (1 bytes)" in finding.message


def test_atomics(launch_body):
    atomic = f"{SHARED} mov.u32 %r1, s; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [%r1], 0; bar.sync 0;\n"
    atomic += "atom.shared.add.u32 %r4, [%r1], 1; red.global.add.u32 [%a0+512], 1;\n"
    assert run(launch_body, atomic, grid=3).ok
    assert races(run(launch_body, atomic + "@%p1 st.shared.u32 [%r1], 5;"))
    assert races(run(launch_body, atomic + "ld.global.u32 %r5, [%a0+512];"))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize("body", [RELEASE, FENCES, COUNTER])
def test_flags_between_blocks(launch_body, body, mode, threads):
    report = run(launch_body, body, block=32, grid=2, mode=mode, threads=threads)
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        (RELEASE, "st.release.gpu", "st.relaxed.gpu"),
        (RELEASE, "ld.acquire.gpu", "ld.relaxed.gpu"),
        (RELEASE, "st.release.gpu", "st.release.cta"),
        (FENCES, "membar.gl;", ""),
        (FENCES, "membar.gl;", "membar.cta;"),
        (FENCES, "fence.acq_rel.gpu;", ""),
        (FENCES, "membar.gl;", "fence.acquire.gpu;"),
        (FENCES, "fence.acq_rel.gpu;", "fence.release.gpu;"),
        (COUNTER, "fence.acq_rel.gpu;", ""),
        (COUNTER, "fence.sc.gpu;", ""),
        (RELEASE, "st.release.gpu.global", "st.global"),
    ],
)
def test_weakened_flags(launch_body, body, old, new):
    assert old in body
    report = run(launch_body, body.replace(old, new), block=32, grid=2)
    assert races(report), str(report)


@pytest.mark.parametrize(("body", "wide"), [(FENCES, "membar.gl;"), (COUNTER, "fence.acq_rel.gpu;")])
@pytest.mark.parametrize(
    "fences", ["fence.sc.sys; membar.cta;", "membar.cta; fence.release.gpu; fence.acq_rel.cluster;"]
)
def test_a_narrower_fence_takes_nothing_from_a_wider_one(launch_body, body, wide, fences):
    report = run(launch_body, body.replace(wide, fences, 1), block=1, grid=2)
    assert report.ok, str(report)


def test_a_narrower_fence_behind_a_write_does_not_release_it_further(launch_body):
    body = FENCES.replace("st.global.u32 [%a0], 7;", "membar.sys; st.global.u32 [%a0], 7;")
    assert races(run(launch_body, body.replace("membar.gl", "membar.cta"), block=1, grid=2))


def test_blocks_share_nothing_else(launch_body):
    each = "mov.u32 %r0, %ctaid.x; mad.lo.u32 %r0, %r0, 32, %t; mad.wide.u32 %d0, %r0, 4, %a0; st.global.u32 [%d0], %t;"
    assert run(launch_body, each, block=32, grid=4, threads=2).ok
    report = run(launch_body, each.replace("%r0, 32, %t", "%r0, 31, %t"), block=32, grid=4)
    (finding,) = races(report)
    assert "byte 124 of argument 0" in finding.message
    assert (finding.block, finding.other.block) == ((1, 0, 0), (0, 0, 0))
    assert (finding.lane, finding.other.lane) == (0, 31)


def test_two_writes_of_one_value_are_no_race(launch_body):
    assert run(launch_body, "st.global.u32 [%a0], 3;", grid=3).ok
    assert races(run(launch_body, "mov.u32 %r0, %ctaid.x; st.global.u32 [%a0], %r0;", grid=3))


@pytest.mark.parametrize("mode", vgpu.MODES)
def test_cluster_barrier(launch_body, mode):
    report = run(launch_body, CLUSTER, block=32, grid=4, cluster=2, mode=mode)
    assert report.ok, str(report)
    removed = CLUSTER.replace("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;", "")
    assert races(run(launch_body, removed, block=32, grid=4, cluster=2, mode=mode))
    relaxed = CLUSTER.replace("arrive.release", "arrive.relaxed")
    assert races(run(launch_body, relaxed, block=32, grid=4, cluster=2, mode=mode))


def test_lanes_of_one_store(launch_body):
    body = f"{SHARED} mov.u32 %r1, s; and.b32 %r0, %t, 15;"
    body += " shl.b32 %r0, %r0, 2; add.u32 %r2, %r1, %r0;\nst.shared.u32 [%r2], "
    assert run(launch_body, body + "%r0;", block=32).ok
    (finding,) = races(run(launch_body, body + "%t;", block=32))
    assert "lanes 0 and 16 write different values" in finding.message
    assert (finding.lane, finding.other.lane) == (16, 0)


LANES = f"""{SHARED} mov.u32 %r1, s; setp.lt.u32 %p1, %t, 16; @%p1 bra A;
{{before_b}} ld.shared.u32 %r4, [%r1]; bra END;
A: st.shared.u32 [%r1], 3; {{after_a}} bra END;
END:"""


def test_diverged_lanes(launch_body):
    init = "st.shared.u32 [s], 1; bar.warp.sync -1;"
    apart = LANES.format(before_b="", after_a="")
    assert races(run(launch_body, apart.replace("mov.u32 %r1, s;", f"mov.u32 %r1, s; {init}"), block=32))
    synced = LANES.format(before_b="bra JOIN;", after_a="bra JOIN;").replace(
        "END:", "JOIN: bar.warp.sync -1; ld.shared.u32 %r4, [%r1];\nEND:"
    )
    report = run(launch_body, synced, block=32)
    assert report.ok, str(report)


@pytest.mark.parametrize("mode", vgpu.MODES)
def test_a_barrier_of_a_warp_that_runs_together(launch_body, mode):
    """Lane 0 alone reads what the others wrote, behind the barrier; without it that is a race."""
    body = f"""{SHARED} {SLOT} st.shared.u32 [%r2], %t; bar.warp.sync -1; setp.ne.u32 %p0, %t, 0; @%p0 bra END;
ld.shared.u32 %r4, [%r1+4]; st.global.u32 [%a0], %r4;
END:"""
    assert run(launch_body, body, block=32, mode=mode).ok
    assert races(run(launch_body, body.replace("bar.warp.sync -1;", ""), block=32, mode=mode))


def test_reads_never_race(launch_body):
    body = f"{SHARED} mov.u32 %r1, s; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [%r1], 1; bar.sync 0;\n"
    body += "ld.shared.u32 %r4, [%r1];\n" * 3
    assert run(launch_body, body, block=1024).ok
    (finding,) = races(run(launch_body, body + "@%p1 st.shared.u32 [%r1], 2;", block=1024, mode="skew-reverse"))
    assert finding.count == 31  # one for each other warp that read


def test_unknown_checks(launch_body):
    with pytest.raises(LaunchError, match="'rcae' is not known") as error:
        run(launch_body, "ret;", checks=["race", "rcae"])
    assert "race, banks, sectors, traffic" in str(error.value)


def test_a_waiter_that_the_init_is_not_ordered_before(launch_body):
    body = f"""{SHARED} mov.u32 %r9, bar; setp.lt.u32 %p1, %t, 32; setp.eq.u32 %p0, %t, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r9], 1;
    bar.sync 0;
    @%p0 mbarrier.arrive.shared::cta.b64 _, [%r9];
    {WAIT.format(n=0, parity=0)}"""
    assert run(launch_body, body).ok
    (finding,) = races(run(launch_body, body.replace("bar.sync 0;", "")))
    assert "by mbarrier.wait is not ordered after the write by mbarrier.init" in finding.message
