"""cp.async: sizes, zero fill, groups and waits, arrival on an mbarrier; every removed wait is noticed in lazy mode."""

import numpy as np
import pytest
import torch

from tilewright.vgpu import launch
from tilewright.vgpu.errors import UnsupportedInstruction

THREADS = 64


def kernel(body, shared=4096):
    """%src: pin + 16 * tid, %dst: shared tile + 16 * tid, %out: pout + 16 * tid."""
    return f"""
.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pin, .param .u64 pout, .param .u32 pn)
{{
.shared .align 16 .b8 tile[{shared}];
.shared .align 8 .b8 bars[16];
.reg .b32 %r<10>, %t, %dst, %n, %bar;
.reg .b64 %src, %out, %o;
.reg .pred %p<4>;
mov.u32 %t, %tid.x;
mov.u32 %bar, bars;
ld.param.u64 %src, [pin];
ld.param.u64 %out, [pout];
ld.param.u32 %n, [pn];
mul.wide.u32 %o, %t, 16;
add.s64 %src, %src, %o;
add.s64 %out, %out, %o;
mov.u32 %dst, tile;
mad.lo.u32 %dst, %t, 16, %dst;
{body}
ret;
}}"""


READ = """ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%dst];
st.global.v4.b32 [%out], {%r0, %r1, %r2, %r3};"""


def run(ptx, source, out, n=0, mode="eager"):
    args = [torch.from_numpy(source), torch.from_numpy(out), n]
    return launch(ptx, "k", 1, THREADS, args, target="sm_80", mode=mode)


def data():
    return np.random.default_rng(0).integers(0, 256, size=(4 * THREADS, 16)).astype(np.uint8)


@pytest.mark.parametrize("mode", ["eager", "lazy", "skew", "random"])
@pytest.mark.parametrize(
    ("copy", "size"),
    [
        ("cp.async.ca.shared.global [%dst], [%src], 4;", 4),
        ("cp.async.ca.shared::cta.global [%dst], [%src], 8;", 8),
        ("cp.async.ca.shared.global [%dst], [%src], 16;", 16),
        ("cp.async.cg.shared.global.L2::128B [%dst], [%src], 16;", 16),
    ],
)
def test_sizes(copy, size, mode):
    source, out = data(), np.zeros((THREADS, 16), np.uint8)
    zero = "mov.u32 %r0, 0;\nst.shared.v4.b32 [%dst], {%r0, %r0, %r0, %r0};\n"
    report = run(kernel(f"{zero}{copy}\ncp.async.wait_all;\n{READ}"), source, out, mode=mode)
    assert report.ok, str(report)
    expected = source[:THREADS].copy()
    expected[:, size:] = 0
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("n", [0, 1, 7, 16])
def test_source_size_fills_with_zeros(n, mode):
    source, out = data(), np.zeros((THREADS, 16), np.uint8)
    body = f"cp.async.cg.shared.global [%dst], [%src], 16, %n;\ncp.async.wait_all;\n{READ}"
    report = run(kernel(body), source, out, n, mode)
    assert report.ok, str(report)
    expected = source[:THREADS].copy()
    expected[:, n:] = 0
    np.testing.assert_array_equal(out, expected)


def test_a_source_of_no_bytes_may_lie_anywhere():
    out = np.ones((THREADS, 16), np.uint8)
    body = f"mov.u64 %src, 64;\ncp.async.cg.shared.global [%dst], [%src], 16, 0;\ncp.async.wait_all;\n{READ}"
    report = run(kernel(body), data(), out)
    assert report.ok, str(report)
    assert not out.any()


STAGES = """cp.async.cg.shared.global [%dst], [%src], 16;
cp.async.commit_group;
cp.async.cg.shared.global [%dst+1024], [%src+1024], 16;
cp.async.commit_group;
cp.async.wait_group {first};
ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%dst];
st.global.v4.b32 [%out], {{%r0, %r1, %r2, %r3}};
cp.async.wait_group {second};
ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%dst+1024];
st.global.v4.b32 [%out+1024], {{%r0, %r1, %r2, %r3}};
cp.async.wait_all;"""


@pytest.mark.parametrize("mode", ["eager", "lazy", "lazy-reverse"])
def test_groups_complete_in_order(mode):
    source, out = data(), np.zeros((2 * THREADS, 16), np.uint8)
    report = run(kernel(STAGES.format(first=1, second=0)), source, out, mode=mode)
    assert report.ok, str(report)
    np.testing.assert_array_equal(out, source[: 2 * THREADS])


@pytest.mark.parametrize(("first", "second"), [(2, 0), (1, 1)])
def test_a_weak_wait_reads_what_has_not_landed(first, second):
    report = run(
        kernel(STAGES.format(first=first, second=second)), data(), np.zeros((2 * THREADS, 16), np.uint8), mode="lazy"
    )
    assert [f.kind for f in report.findings] == ["uninitialized-shared"]


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_work_left_at_exit(mode):
    body = "cp.async.cg.shared.global [%dst], [%src], 16;\ncp.async.commit_group;"
    report = run(kernel(body), data(), np.zeros((THREADS, 16), np.uint8), mode=mode)
    assert {f.kind for f in report.findings} == {"unfinished-work"}
    assert "cp.async" in report.findings[0].message


@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
@pytest.mark.parametrize(("noinc", "count"), [(".noinc", 2 * THREADS), ("", THREADS)])
def test_arrival_on_an_mbarrier(mode, noinc, count):
    """Without .noinc the copies' arrivals are counted on top, so the threads' own arrivals complete the phase."""
    body = f"""setp.eq.u32 %p0, %t, 0;
@%p0 mbarrier.init.shared.b64 [%bar], {count};
bar.sync 0;
cp.async.cg.shared.global [%dst], [%src], 16;
cp.async.mbarrier.arrive{noinc}.shared.b64 [%bar];
mbarrier.arrive.shared.b64 %o, [%bar];
WAIT:
mbarrier.test_wait.parity.shared.b64 %p1, [%bar], 0;
@!%p1 bra WAIT;
{READ}"""
    source, out = data(), np.zeros((THREADS, 16), np.uint8)
    report = run(kernel(body), source, out, mode=mode)
    assert report.ok, str(report)
    np.testing.assert_array_equal(out, source[:THREADS])


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        ("add.u32 %dst, %dst, 8;", "misaligned"),
        ("add.s64 %src, %src, 4;", "misaligned"),
        ("add.u32 %dst, %dst, 65536;", "out-of-bounds"),
        ("add.s64 %src, %src, 1048576;", "out-of-bounds"),
    ],
)
def test_bad_addresses(edit, kind):
    body = f"{edit}\ncp.async.cg.shared.global [%dst], [%src], 16;\ncp.async.wait_all;"
    report = run(kernel(body), data(), np.zeros((THREADS, 16), np.uint8))
    assert [f.kind for f in report.findings] == [kind]


def test_a_source_size_beyond_the_copy():
    body = "cp.async.ca.shared.global [%dst], [%src], 8, 9;\ncp.async.wait_all;"
    report = run(kernel(body), data(), np.zeros((THREADS, 16), np.uint8))
    assert "source size of 9" in report.findings[0].message


def test_refused_spelling():
    with pytest.raises(UnsupportedInstruction, match="unsupported modifier"):
        launch(kernel("cp.async.cg.shared.global.evict [%dst], [%src], 16;"), "k", 1, 128, [], target="sm_90a")
