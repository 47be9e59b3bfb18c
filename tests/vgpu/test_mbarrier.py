"""mbarrier: phases, counts, tx-count, states, and the misuse that is reported."""

import numpy as np
import pytest
import torch

from tilewright.vgpu import launch

MODES = ["eager", "lazy", "skew", "skew-reverse", "random"]


def kernel(body):
    """%bar: an mbarrier; %t: thread; %out: pout + 4 * tid; tile: 1024 shared bytes at %s = tile + 4 * tid."""
    return f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pout)
{{
.shared .align 8 .b8 bars[32];
.shared .align 128 .b8 tile[1024];
.reg .b32 %r<10>, %t, %bar, %s;
.reg .b64 %out, %o, %st<4>;
.reg .pred %p<6>;
mov.u32 %t, %tid.x;
mov.u32 %bar, bars;
mov.u32 %s, tile;
mad.lo.u32 %s, %t, 4, %s;
ld.param.u64 %out, [pout];
mul.wide.u32 %o, %t, 4;
add.s64 %out, %out, %o;
setp.eq.u32 %p0, %t, 0;
setp.lt.u32 %p2, %t, 32;
{body}
ret;
}}"""


def run(body, threads=64, mode="eager"):
    out = np.zeros(threads, np.uint32)
    report = launch(kernel(body), "k", 1, threads, [torch.from_numpy(out)], target="sm_90a", mode=mode)
    return report, out


def wait(label, parity, bar="%bar", space=".shared::cta"):
    return f"""{label}:
mbarrier.try_wait.parity{space}.b64 %p1, [{bar}], {parity}, 10000000;
@%p1 bra {label}_DONE;
bra {label};
{label}_DONE:"""


INIT = "@%p0 mbarrier.init.shared::cta.b64 [%bar], {count};\nbar.sync 0;"


@pytest.mark.parametrize("mode", MODES)
def test_all_threads_meet(mode):
    """Every thread writes, arrives and, after the wait, reads what the last thread of the block wrote."""
    body = f"""{INIT.format(count=64)}
st.shared.u32 [%s], %t;
mbarrier.arrive.shared::cta.b64 _, [%bar];
{wait("W", 0)}
mov.u32 %r0, tile;
ld.shared.u32 %r1, [%r0+252];
st.global.u32 [%out], %r1;"""
    report, out = run(body, mode=mode)
    assert report.ok, str(report)
    np.testing.assert_array_equal(out, np.full(64, 63))


@pytest.mark.parametrize("mode", MODES)
def test_parities_alternate(mode):
    body = INIT.format(count=64) + "".join(
        f"\nmbarrier.arrive.release.cta.shared::cta.b64 _, [%bar];\n{wait(f'W{k}', k % 2)}" for k in range(9)
    )
    report, _ = run(body + "\nst.global.u32 [%out], 1;", mode=mode)
    assert report.ok, str(report)


def test_a_fresh_barrier_passes_parity_one():
    report, _ = run(INIT.format(count=1) + "\n" + wait("W", 1))
    assert report.ok, str(report)


@pytest.mark.parametrize("mode", MODES)
def test_states_and_counts(mode):
    """arrive returns the state before it; a counted arrival completes the phase; test_wait of the state sees that."""
    body = """@!%p0 bra END;
mbarrier.init.shared.b64 [%bar], 5;
mbarrier.arrive.noComplete.shared.b64 %st0, [%bar], 2;
mbarrier.pending_count.b64 %r0, %st0;
st.global.u32 [%out], %r0;
mbarrier.arrive.shared.b64 %st1, [%bar];
mbarrier.pending_count.b64 %r1, %st1;
st.global.u32 [%out+4], %r1;
mbarrier.test_wait.shared.b64 %p1, [%bar], %st1;
selp.u32 %r2, 1, 0, %p1;
st.global.u32 [%out+8], %r2;
mbarrier.arrive.shared.b64 %st2, [%bar], 2;
mbarrier.test_wait.shared.b64 %p1, [%bar], %st1;
selp.u32 %r2, 1, 0, %p1;
st.global.u32 [%out+12], %r2;
mbarrier.arrive_drop.shared.b64 %st2, [%bar];
mbarrier.arrive.shared.b64 %st2, [%bar], 4;
mbarrier.arrive.shared.b64 %st3, [%bar];
mbarrier.pending_count.b64 %r3, %st3;
st.global.u32 [%out+16], %r3;
mbarrier.inval.shared.b64 [%bar];
END:"""
    report, out = run(body, threads=32, mode=mode)
    assert report.ok, str(report)
    # After the drop every phase expects 4.
    assert out[:5].tolist() == [5, 3, 0, 1, 4]


@pytest.mark.parametrize("mode", MODES)
def test_the_phase_waits_for_announced_bytes(mode):
    """The waiters pass only when complete_tx has balanced expect_tx, which warp 1 does after writing."""
    body = f"""@%p0 mbarrier.init.shared::cta.b64 [%bar], 1;
bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 48;
bar.sync 0;
@%p2 bra WAITER;
st.shared.u32 [%s], 7;
setp.eq.u32 %p3, %t, 32;
@%p3 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 16;
@%p3 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 32;
bra END;
WAITER:
{wait("W", 0)}
ld.shared.u32 %r1, [%s+128];
st.global.u32 [%out], %r1;
END:"""
    report, out = run(body, mode=mode)
    assert report.ok, str(report)
    np.testing.assert_array_equal(out[:32], np.full(32, 7))


@pytest.mark.parametrize("mode", MODES)
def test_polling_with_test_wait_makes_progress(mode):
    body = f"""{INIT.format(count=32)}
@!%p2 bra ARRIVER;
POLL:
mbarrier.test_wait.parity.shared::cta.b64 %p1, [%bar], 0;
@!%p1 bra POLL;
bra END;
ARRIVER:
mbarrier.arrive.shared::cta.b64 _, [%bar];
END:"""
    report, _ = run(body, mode=mode)
    assert report.ok, str(report)


def messages(report, kind):
    assert {f.kind for f in report.findings} == {kind}, str(report)
    return report.findings[0].message


def test_underflow():
    report, _ = run("@%p0 mbarrier.init.shared.b64 [%bar], 2;\nbar.sync 0;\nmbarrier.arrive.shared.b64 _, [%bar], 3;")
    assert "underflow, 3 arrive" in messages(report, "mbarrier")


def test_use_before_init():
    report, _ = run("mbarrier.arrive.shared.b64 _, [%bar];")
    assert "no mbarrier.init" in messages(report, "mbarrier")


USE = "arrive.shared.b64 _, [%bar]"


def test_use_after_inval():
    body = "\n".join(f"@%p0 mbarrier.{op};" for op in ("init.shared.b64 [%bar], 2", "inval.shared.b64 [%bar]", USE))
    report, _ = run(body)
    assert "no mbarrier.init" in messages(report, "mbarrier")


def test_init_count():
    report, _ = run("@%p0 mbarrier.init.shared.b64 [%bar], 0;")
    assert "count 0" in messages(report, "mbarrier")


def test_misaligned_barrier():
    report, _ = run("@%p0 mbarrier.init.shared.b64 [%bar+4], 1;")
    assert "multiple of 8" in messages(report, "misaligned")


def test_no_complete_that_completes():
    report, _ = run(
        "@%p0 mbarrier.init.shared.b64 [%bar], 1;\n@%p0 mbarrier.arrive.noComplete.shared.b64 %st0, [%bar], 1;"
    )
    assert "noComplete" in messages(report, "mbarrier")


def test_a_dropped_arrival_is_a_deadlock():
    body = f"{INIT.format(count=64)}\n@%p2 mbarrier.arrive.shared::cta.b64 _, [%bar];\n{wait('W', 0)}"
    report, _ = run(body)
    text = messages(report, "deadlock")
    assert "32 of 64 arrivals pending" in text
    assert "parity 0" in text


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_bytes_announced_and_never_sent(mode):
    report, _ = run(INIT.format(count=1) + "\n@%p0 mbarrier.expect_tx.shared::cta.b64 [%bar], 256;", mode=mode)
    assert "tx-count 256" in messages(report, "unfinished-work")


def test_tx_count_range():
    report, _ = run(INIT.format(count=1) + "\n@%p0 mbarrier.expect_tx.shared::cta.b64 [%bar], 1048576;")
    assert "beyond its range" in messages(report, "mbarrier")


@pytest.mark.parametrize("mode", ["skew", "eager"])
def test_phase_overrun(mode):
    """Warp 0 waits for the first phase; warp 1, let go just before, completes two before warp 0 looks again."""
    body = f"""@%p0 mbarrier.init.shared::cta.b64 [%bar], 1;
@%p0 mbarrier.init.shared::cta.b64 [%bar+8], 32;
bar.sync 0;
@%p2 bra WAITER;
{wait("GO", 0, "%bar+8")}
setp.eq.u32 %p3, %t, 32;
@%p3 mbarrier.arrive.shared::cta.b64 _, [%bar];
@%p3 mbarrier.arrive.shared::cta.b64 _, [%bar];
bra END;
WAITER:
mbarrier.arrive.shared::cta.b64 _, [%bar+8];
{wait("W", 0)}
END:"""
    report, _ = run(body, mode=mode)
    assert "second phase" in messages(report, "mbarrier")
