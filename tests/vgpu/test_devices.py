"""Several grids at once on several devices: flags between them, scopes, deadlocks, in every scheduling mode."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu
from tilewright.vgpu.errors import LaunchError

# a0: own inbox (data at 0, flag at 4), a1: the peer's inbox, a2: result. Sends 100 + a3 to the peer, waits for its own.
EXCHANGE = """setp.ne.u32 %p0, %t, 0; @%p0 bra END; cvt.u32.u64 %r0, %a3; add.u32 %r0, %r0, 100;
{before}
st.global.u32 [%a1], %r0;
{publish}
WAIT:
{poll} setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;
{acquire}
ld.global.u32 %r2, [%a0];
st.global.u32 [%a2], %r2;
END:"""
GOOD = {
    "release": {
        "before": "",
        "publish": "st.release.sys.global.u32 [%a1+4], 1;",
        "poll": "ld.acquire.sys.global.u32 %r1, [%a0+4];",
        "acquire": "",
    },
    "fences": {
        "before": "",
        "publish": "membar.sys;\nst.volatile.global.u32 [%a1+4], 1;",
        "poll": "ld.volatile.global.u32 %r1, [%a0+4];",
        "acquire": "fence.acq_rel.sys;",
    },
    "atomics": {
        "before": "",
        "publish": "fence.acq_rel.sys;\nred.relaxed.sys.global.add.u32 [%a1+4], 1;",
        "poll": "atom.relaxed.sys.global.or.b32 %r1, [%a0+4], 0; nanosleep.u32 20;",
        "acquire": "fence.sc.sys;",
    },
    "swap": {
        "before": "",
        "publish": "atom.acq_rel.sys.global.exch.b32 %r5, [%a1+4], 1;",
        "poll": "atom.acquire.sys.global.cas.b32 %r1, [%a0+4], 1, 1;",
        "acquire": "",
    },
}
MODES = list(vgpu.MODES)


def exchange(make_kernel, parts, *, devices=(0, 1), mode="eager", threads=1, grid=1, seed=0, checks=("race",)):
    ptx = make_kernel(EXCHANGE.format(**parts), 4)
    inbox = [np.zeros(2, np.uint32) for _ in devices]
    result = [np.zeros(1, np.uint32) for _ in devices]
    launches = [
        vgpu.Launch(ptx, "k", grid, 32, [inbox[k], inbox[1 - k], result[k], k], device=device)
        for k, device in enumerate(devices)
    ]
    report = vgpu.launch_many(launches, target="sm_90a", mode=mode, threads=threads, seed=seed, checks=checks)
    return report, [int(r[0]) for r in result], ptx


def line_of(ptx, text):
    return next(n for n, line in enumerate(ptx.splitlines(), 1) if line.strip().startswith(text))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", GOOD)
def test_two_devices_exchange_values(make_kernel, name, mode, threads):
    report, result, _ = exchange(make_kernel, GOOD[name], mode=mode, threads=threads)
    assert report.ok, str(report)
    assert result == [101, 100]


NARROW = [
    ("release", {"publish": "st.release.gpu.global.u32 [%a1+4], 1;"}, "scope .gpu of the write"),
    ("release", {"poll": "ld.acquire.gpu.global.u32 %r1, [%a0+4];"}, "scope .gpu of the read"),
    (
        "atomics",
        {"publish": "fence.acq_rel.sys;\nred.relaxed.gpu.global.add.u32 [%a1+4], 1;"},
        "scope .gpu of the atomic",
    ),
    ("atomics", {"publish": "fence.acq_rel.sys;\nred.global.add.u32 [%a1+4], 1;"}, "scope .gpu of the atomic"),
]


@pytest.mark.parametrize("mode", ["eager", "skew", "skew-reverse", "random"])
@pytest.mark.parametrize(("name", "change", "text"), NARROW)
def test_a_flag_of_device_scope_is_a_race_between_devices(make_kernel, name, change, text, mode):
    report, _, ptx = exchange(make_kernel, {**GOOD[name], **change}, mode=mode)
    found = [f for f in report.findings if f.kind == "race" and text in f.message]
    assert found, str(report)
    finding = found[0]
    assert "is too narrow: another device needs .sys" in finding.message
    assert {finding.device, finding.other.device} == {0, 1}
    (changed,) = change.values()
    assert line_of(ptx, changed.splitlines()[-1]) in (finding.ptx_line, finding.other.ptx_line)
    # the data that the flag was to guard
    assert any(f.kind == "race" and f.ptx.startswith("ld.global.u32 %r2") for f in report.findings), str(report)


@pytest.mark.parametrize(("name", "change", "text"), NARROW)
def test_the_same_flag_is_enough_on_one_device(make_kernel, name, change, text):
    report, result, _ = exchange(make_kernel, {**GOOD[name], **change}, devices=(3, 3))
    assert report.ok, str(report)
    assert result == [101, 100]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"publish": "membar.gl;\nst.volatile.global.u32 [%a1+4], 1;"}, "membar.gl"),
        ({"acquire": "fence.acq_rel.gpu;"}, "fence.acq_rel.gpu"),
    ],
)
def test_a_fence_of_device_scope_is_named(make_kernel, change, fault):
    report, _, ptx = exchange(make_kernel, {**GOOD["fences"], **change})
    (finding,) = report.findings
    assert finding.kind == "race"
    assert finding.ptx.startswith("ld.global.u32 %r2")
    side = "release" if "publish" in change else "acquire"
    assert f"scope .gpu of its {side} at PTX line {line_of(ptx, fault)} is too narrow" in finding.message
    assert finding.other.ptx.startswith("st.global.u32 [%a1]")
    assert finding.other.device != finding.device


@pytest.mark.parametrize("change", [{"publish": "st.volatile.global.u32 [%a1+4], 1;"}, {"acquire": ""}])
def test_a_missing_fence_is_a_race_on_the_data(make_kernel, change):
    report, _, _ = exchange(make_kernel, {**GOOD["fences"], **change})
    (finding,) = report.findings
    assert finding.kind == "race"
    assert "narrow" not in finding.message
    assert finding.ptx.startswith("ld.global.u32 %r2")
    assert finding.other.ptx.startswith("st.global.u32 [%a1]")


def test_a_plain_flag_is_a_race(make_kernel):
    parts = {
        "before": "",
        "publish": "st.global.u32 [%a1+4], 1;",
        "poll": "ld.volatile.global.u32 %r1, [%a0+4];",
        "acquire": "",
    }
    report, _, _ = exchange(make_kernel, parts)
    assert any(
        f.ptx.startswith("ld.volatile") and f.other.ptx.startswith("st.global.u32 [%a1+4]") for f in report.findings
    )


def test_block_scope_between_blocks_is_named(launch_body):
    body = """setp.ne.u32 %p0, %t, 0; @%p0 bra END; mov.u32 %r0, %ctaid.x; setp.ne.u32 %p1, %r0, 0; @%p1 bra READER;
    st.release.cta.global.u32 [%a0], 1;
    bra END;
    READER:
    ld.acquire.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p2, %r1, 0; @%p2 bra READER;
    END:"""
    report = launch_body(body, [np.zeros(4, np.uint32)], grid=2, checks={"race"})
    (finding,) = report.findings
    assert finding.message.endswith("scope .cta of the write by st.global is too narrow: another block needs .gpu")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_deadlock_across_devices_says_who_waits_for_what(make_kernel, mode, threads):
    parts = {**GOOD["release"], "before": "bra WAIT;"}
    report, _, ptx = exchange(make_kernel, parts, mode=mode, threads=threads, checks=())
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    assert finding.ptx_line == line_of(ptx, "ld.acquire.sys") == finding.other.ptx_line
    assert {finding.device, finding.other.device} == {0, 1}
    wait = f"warp 0 lanes 0x1 waits at PTX line {finding.ptx_line} for a write to byte 4 of argument 0, which holds 0"
    assert finding.message == f"device 0 block (0, 0, 0): {wait}; device 1 block (0, 0, 0): {wait}"


def test_a_deadlock_inside_one_device_names_the_flag(launch_body):
    body = "W: ld.acquire.gpu.global.u32 %r1, [%a0+8]; setp.eq.u32 %p1, %r1, 0; @%p1 bra W; bar.sync 0;"
    report = launch_body(body, [np.zeros(4, np.uint32)], grid=3)
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    assert finding.message.count("for a write to byte 8 of argument 0") == 3


def test_a_loop_that_reads_nothing_ends_at_once(launch_body):
    report = launch_body("L: bra L;", [])
    (finding,) = report.findings
    assert finding.kind == "runaway"
    assert "in a loop at PTX line" in finding.message


def test_a_loop_with_a_time_limit_goes_on(launch_body):
    out = np.zeros(4, np.uint32)
    body = """mov.u32 %r5, 0;
    W: ld.acquire.sys.global.u32 %r1, [%a0]; setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 100000; @%p2 bra W;
    DONE: st.global.u32 [%a0+4], %r5;"""
    assert launch_body(body, [out], block=1).ok
    assert out[1] == 100_000


def test_a_timer_keeps_a_loop_alive(launch_body):
    out = np.zeros(1, np.uint64)
    body = """mov.u64 %d0, %globaltimer; add.u64 %d1, %d0, 20000000;
    W: mov.u64 %d2, %globaltimer; nanosleep.u32 100; setp.lt.u64 %p1, %d2, %d1; @%p1 bra W;
    sub.u64 %d3, %d2, %d0; st.global.u64 [%a0], %d3;"""
    assert launch_body(body, [out], block=1).ok
    assert out[0] >= 20_000_000


@pytest.mark.parametrize("mode", MODES)
def test_grids_larger_than_a_turn_and_a_barrier_of_all_devices(make_kernel, mode):
    # Every block of every device adds to a counter of device 0, waits for all, then writes what it sees.
    devices, blocks = 4, 24
    body = """setp.ne.u32 %p0, %t, 0; @%p0 bra END; mov.u32 %r9, %ctaid.x;
    atom.acq_rel.sys.global.add.u32 %r0, [%a0], 1;
    W: ld.acquire.sys.global.u32 %r1, [%a0]; setp.lt.u32 %p1, %r1, 96; @%p1 bra W;
    mad.wide.u32 %d0, %r9, 4, %a1; st.global.u32 [%d0], %r1;
    END:"""
    counter, results = np.zeros(1, np.uint32), [np.zeros(blocks, np.uint32) for _ in range(devices)]
    ptx = make_kernel(body, 2)
    launches = [vgpu.Launch(ptx, "k", blocks, 64, [counter, r], device=k) for k, r in enumerate(results)]
    report = vgpu.launch_many(launches, target="sm_90a", mode=mode, threads=2, checks={"race"}, seed=7)
    assert report.ok, str(report)
    assert counter[0] == devices * blocks
    assert all((r == devices * blocks).all() for r in results)


def test_pointers_in_memory_reach_a_peer_only_when_it_is_named(make_kernel):
    mine, peer = np.zeros(1, np.uint32), np.zeros(8, np.uint32)
    table = np.array([peer.ctypes.data], np.uint64)
    ptx = make_kernel("ld.global.u64 %d0, [%a0]; st.global.u32 [%d0+28], 5;", 1)

    def run(memory):
        launches = [vgpu.Launch(ptx, "k", 1, 1, [table], device=1, memory=memory)]
        return vgpu.launch_many(launches, target="sm_80")

    assert run([peer]).ok
    assert peer[7] == 5
    (finding,) = run([mine]).findings
    assert finding.kind == "out-of-bounds"
    assert finding.device == 1


def test_different_kernels_and_counts(make_kernel):
    out = np.zeros(2, np.uint32)
    one = make_kernel("st.global.u32 [%a0], 1;", 1)
    two = make_kernel("st.global.u32 [%a0+4], 2;", 1).replace("entry k(", "entry other(")
    launches = [vgpu.Launch(one, "k", 1, 1, [out]), vgpu.Launch(two, "other", 1, 1, [out], device=1)]
    report = vgpu.launch_many(launches, target="sm_80", checks={"traffic", "race"})
    assert report.ok
    assert report.kernel == "k, other"
    assert out.tolist() == [1, 2]
    assert report.counts["instructions.store"] == 2
    assert sum("st.global.u32" in h.ptx for h in report.hot) == 2


def test_global_variables_belong_to_a_grid(make_kernel):
    out = np.zeros(2, np.uint32)
    body = "mov.u64 %d0, v; atom.global.add.u32 %r0, [%d0], 1; st.global.u32 [%a0], %r0;"
    ptx = make_kernel(body, 1, module=".global .align 4 .u32 v;")
    launches = [vgpu.Launch(ptx, "k", 1, 1, [out[k : k + 1]], device=k) for k in range(2)]
    assert vgpu.launch_many(launches, target="sm_80", checks={"race"}).ok
    assert out.tolist() == [0, 0]


def test_mistakes_in_the_list(make_kernel):
    with pytest.raises(LaunchError, match="launches must be a sequence of at least one Launch"):
        vgpu.launch_many([], target="sm_80")
    ptx = make_kernel("", 0)
    with pytest.raises(LaunchError, match="device must be a whole number from 0 to 1023"):
        vgpu.launch_many([vgpu.Launch(ptx, "k", 1, 1, [], device=-1)], target="sm_80")
