"""st.async, red.async and bulk reductions into the shared memory of the cluster, against sums and copies in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

# Block 0 sends to block 1, which expects %r9 bytes and copies the target to %a1 when they are there.
HEAD = """.shared .align 16 .b8 tile[512]; .shared .align 8 .b64 bar;
mov.u32 %r20, tile; mov.u32 %r21, bar; setp.eq.u32 %p0, %t, 0; mov.u32 %r22, %cluster_ctarank;
setp.eq.u32 %p1, %r22, 0; shl.b32 %r0, %t, 4; add.u32 %r1, %r20, %r0; mul.wide.u32 %d8, %t, 16; add.u64 %d9, %a0, %d8;
{before}
@%p0 mbarrier.init.shared::cta.b64 [%r21], 1;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mapa.shared::cluster.u32 %r2, %r1, 1; mapa.shared::cluster.u32 %r3, %r21, 1; mapa.shared::cluster.u32 %r4, %r20, 1;
@!%p1 bra RECEIVE;
{send}
bra END;
RECEIVE: @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], {bytes};
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [%r21], 0; @!%p7 bra W;
ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r1]; add.u64 %d7, %a1, %d8;
st.global.v4.u32 [%d7], {{%r10, %r11, %r12, %r13}};
END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
ZERO = "mov.u32 %r5, 0; st.shared.v4.u32 [%r1], {%r5, %r5, %r5, %r5};"
COMPLETES = "mbarrier::complete_tx::bytes"


def run(launch_body, send, source, *, before="", count=512, mode="eager", checks=()):
    out = np.zeros(512, np.uint8)
    body = HEAD.format(send=send, before=before, bytes=count)
    report = launch_body(body, [source, out], block=32, grid=2, cluster=2, mode=mode, checks=checks)
    return report, out


@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize(
    "send",
    [
        "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%d9];"
        f"st.async.shared::cluster.{COMPLETES}.v4.b32 [%r2], {{%r10, %r11, %r12, %r13}}, [%r3];",
        "ld.global.v2.u64 {%d10, %d11}, [%d9];"
        f"st.async.weak.shared::cluster.{COMPLETES}.v2.b64 [%r2], {{%d10, %d11}}, [%r3];",
        "ld.global.v2.f64 {%g1, %g2}, [%d9];"
        f"st.async.shared::cluster.{COMPLETES}.f64 [%r2], %g1, [%r3];"
        f"st.async.shared::cluster.{COMPLETES}.f64 [%r2+8], %g2, [%r3];",
        # generic addresses
        "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d9]; cvt.u64.u32 %d1, %r1; cvta.shared.u64 %d1, %d1;"
        "cvt.u64.u32 %d2, %r21; cvta.shared.u64 %d2, %d2; mapa.u64 %d1, %d1, 1; mapa.u64 %d2, %d2, 1;"
        f"st.async.{COMPLETES}.v4.f32 [%d1], {{%f1, %f2, %f3, %f4}}, [%d2];",
    ],
)
def test_stores_to_another_block(launch_body, send, mode):
    source = np.random.default_rng(1).integers(0, 256, 512).astype(np.uint8)
    report, out = run(launch_body, send, source, mode=mode, checks={"race"})
    assert report.ok, str(report)
    assert np.array_equal(out, source)


def operands(type_, seed):
    return np.random.default_rng(seed).integers(0, 1 << 31, 512 // np.dtype(type_).itemsize).astype(type_)


def reduced(operation, values, times=1):
    """What ``times`` reductions with each of ``values`` make of zeros."""
    zero = np.zeros_like(values)
    if operation in ("inc", "dec"):  # inc: old >= value ? 0 : old + 1; dec: old == 0 or old > value ? value : old - 1
        step = (
            (lambda old, v: 0 if old >= v else old + 1)
            if operation == "inc"
            else (lambda old, v: v if old in (0,) or old > v else old - 1)
        )
        for _ in range(times):
            zero = np.array([step(int(old), int(v)) for old, v in zip(zero, values, strict=True)], values.dtype)
        return zero
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or}
    for _ in range(times):
        zero = ufunc.get(operation, np.bitwise_xor)(zero, values)
    return zero


@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
@pytest.mark.parametrize(
    ("operation", "type_", "dtype"),
    [
        ("add", "u32", np.uint32), ("add", "s32", np.int32), ("add", "u64", np.uint64), ("min", "s32", np.int32),
        ("max", "u32", np.uint32), ("inc", "u32", np.uint32), ("dec", "u32", np.uint32), ("and", "b32", np.uint32),
        ("or", "b32", np.uint32), ("xor", "b32", np.uint32),
    ],
)  # fmt: skip
def test_reductions_in_another_block(launch_body, operation, type_, dtype, mode):
    """Every thread reduces the words of its 16 bytes, three times; then the whole tile does in bulk."""
    source = operands(dtype, 2) - np.array(1 << 30, dtype) * (dtype is np.int32)
    wide = source.itemsize == 8
    words = [f"%d{k}" for k in (10, 11)] if wide else [f"%r{k}" for k in (10, 11, 12, 13)]
    load = f"ld.global.v{len(words)}.u{8 * source.itemsize} {{{', '.join(words)}}}, [%d9];"
    each = "".join(
        f"red.async.relaxed.cluster.shared::cluster.{COMPLETES}.{operation}.{type_} "
        f"[%r2+{k * source.itemsize}], {word}, [%r3];"
        for k, word in enumerate(words)
    )
    report, out = run(launch_body, load + 3 * each, source, before=ZERO, count=3 * 512, mode=mode, checks={"race"})
    assert report.ok, str(report)
    assert np.array_equal(out.view(dtype), reduced(operation, source, 3))

    copy = f"{load} st.shared.v{len(words)}.u{8 * source.itemsize} [%r1], {{{', '.join(words)}}};"
    copy += "fence.proxy.async.shared::cta; bar.warp.sync -1; @!%p0 bra SENT;"
    copy += (
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.{COMPLETES}.{operation}.{type_} [%r4], [%r20], 512, [%r3];"
    )
    report, out = run(launch_body, f"{copy} SENT:", source, before=ZERO, mode=mode, checks={"race"})
    assert report.ok, str(report)
    assert np.array_equal(out.view(dtype), reduced(operation, source))


def test_what_they_may_not_do(launch_body):
    source = np.zeros(512, np.uint8)
    send = f"st.async.shared::cluster.{COMPLETES}.b32 [{{target}}], %t, [{{barrier}}];"
    for target, barrier, kind, text in (
        ("%r2", "%r21", "illegal", "lie in the shared memory of different blocks"),
        ("%r2+2", "%r3", "misaligned", "is not a multiple of 4"),
        ("%r2", "%r3-64", "mbarrier", "holds no mbarrier"),
        ("%r2+4096", "%r3", "out-of-bounds", "at shared address"),
    ):
        report, _ = run(launch_body, send.format(target=target, barrier=barrier), source)
        assert report.findings[0].kind == kind, str(report)
        assert text in report.findings[0].message
    # bytes that nobody announced; a value that is not there, which nothing can be added to
    report, _ = run(launch_body, 2 * send.format(target="%r2", barrier="%r3"), source, count=128)
    (waits,) = (f for f in report.findings if "mbarrier" in f.message)
    assert waits.kind == "deadlock"
    assert "128 bytes announced, at last at PTX line" in waits.message
    assert "256 transferred" in waits.message
    add = f"red.async.relaxed.cluster.shared::cluster.{COMPLETES}.add.u32 [%r2], %t, [%r3];"
    report, _ = run(launch_body, add, source, count=128)
    assert report.findings[0].kind == "uninitialized-shared", str(report)
