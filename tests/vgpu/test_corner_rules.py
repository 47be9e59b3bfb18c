"""Rules that no other file of tests covers: what waits, what leaves, NaN, subnormals, reductions, damaged maps."""

import numpy as np
import pytest
import torch

from tilewright import vgpu
from tilewright.vgpu.errors import UnsupportedInstruction


@pytest.mark.parametrize("mode", sorted(vgpu.MODES))
def test_lanes_left_alone_stay_behind_their_barrier(launch_body, mode):
    # lanes 0-15 of warp 0 are at barrier 1 when lanes 16-31, freed by an mbarrier, leave; warp 1 comes later
    out = np.zeros(1, np.uint32)
    work = "add.u32 %r5, %r5, 1;" * 200
    body = f"""
    .shared .align 16 .b8 s[128];
    mov.u32 %r1, s;
    setp.eq.u32 %p0, %t, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
    mov.u32 %r5, 0;
    bar.sync 0;
    setp.ge.u32 %p1, %t, 32;
    @%p1 bra WRITER;
    setp.lt.u32 %p2, %t, 16;
    @%p2 bra READER;
    AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0;
    @!%p3 bra AGAIN;
    ret;
    READER:
    barrier.sync 1;
    ld.shared.u32 %r6, [%r1+64];
    st.global.u32 [%a0], %r6;
    ret;
    WRITER:
    setp.eq.u32 %p4, %t, 32;
    @%p4 mbarrier.arrive.shared::cta.b64 _, [%r1];
    {work}
    st.shared.u32 [%r1+64], 77;
    barrier.sync 1;
    """
    report = launch_body(body, [out], block=64, mode=mode)
    assert report.ok, str(report)
    assert out.tolist() == [77]


@pytest.mark.parametrize("mode", sorted(vgpu.MODES))
def test_a_producer_may_leave_before_its_copies_arrive(launch_body, mode):
    data, out = np.arange(32, dtype=np.uint32) + 5, np.zeros(32, np.uint32)
    body = """
    .shared .align 16 .b8 s[256];
    mov.u32 %r1, s;
    setp.eq.u32 %p0, %t, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 32;
    bar.sync 0;
    and.b32 %r2, %t, 31;
    shl.b32 %r2, %r2, 2;
    add.u32 %r3, %r1, %r2;
    cvt.u64.u32 %d1, %r2;
    setp.ge.u32 %p1, %t, 32;
    @%p1 bra CONSUMER;
    add.s64 %d1, %d1, %a0;
    cp.async.ca.shared.global [%r3+64], [%d1], 4;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];
    ret;
    CONSUMER:
    AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0;
    @!%p3 bra AGAIN;
    ld.shared.u32 %r6, [%r3+64];
    add.s64 %d1, %d1, %a1;
    st.global.u32 [%d1], %r6;
    """
    report = launch_body(body, [data, out], block=64, mode=mode)
    assert report.ok, str(report)
    assert np.array_equal(out, data)


@pytest.mark.parametrize(
    ("instruction", "dtype", "want"),
    [
        ("cvt.rzi.s32.f32 %y, %x0;", np.int32, 0),
        ("cvt.rzi.s64.f32 %y, %x0;", np.int64, -(2**63)),
        ("cvt.rzi.u64.f32 %y, %x0;", np.uint64, 2**63),
    ],
)
def test_nan_to_integer(elementwise, instruction, dtype, want):
    # PTX ISA 9.7.9.21 (cvt): 0, or the highest bit when source or destination has 64 bits
    assert elementwise(instruction, [np.full(4, np.nan, np.float32)], dtype).tolist() == [want] * 4


def test_nan_of_f64_to_a_narrow_integer(elementwise):
    got = elementwise("cvt.rzi.s32.f64 %y, %x0;", [np.full(4, np.nan)], np.int32)
    assert got.tolist() == [-(2**31)] * 4


def test_packed_comparison_flushes_subnormals(launch_body):
    out = np.full(2, 9, np.uint32)
    body = """
    mov.b32 %r0, 0x00010001;
    mov.b32 %r1, 0;
    setp.gt{ftz}.f16x2 %p0|%p1, %r0, %r1;
    selp.u32 %r2, 1, 0, %p0;
    setp.eq.u32 %p2, %t, 0;
    @%p2 st.global.u32 [%a0{offset}], %r2;
    """
    for offset, ftz in (("", ""), ("+4", ".ftz")):
        assert launch_body(body.replace("{ftz}", ftz).replace("{offset}", offset), [out]).ok
    assert out.tolist() == [1, 0]


def test_reductions_that_do_not_exist_are_refused(launch_body):
    body = "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%a0], [%r0], 16;"
    with pytest.raises(UnsupportedInstruction, match=r"\.min\.f32 needs one of \.u32, \.s32, \.u64"):
        launch_body(body, [np.ones(4, np.float32)], block=1)


def test_read_only_arrays_cannot_be_written(launch_body):
    array = np.zeros(4, np.uint32)
    array.flags.writeable = False
    report = launch_body("st.global.u32 [%a0], %t;", [array], block=1)
    assert [f.kind for f in report.findings] == ["out-of-bounds"]
    assert array.tolist() == [0] * 4


def test_overwritten_tensor_maps_are_refused(launch_body):
    damaged = bytearray(
        vgpu.TensorMap(torch.zeros((8, 16), dtype=torch.uint8), "uint8", (16, 8), (16,), (16, 8), (1, 1)).pack()
    )
    damaged[96:107] = bytes(11)  # the box and the element strides
    buffer = np.frombuffer(bytes(damaged), np.uint8).copy()
    body = """
    .shared .align 128 .b8 s[256];
    mov.u32 %r0, s;
    mov.u32 %r2, 0;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a0, {%r2, %r2}], [%r0];
    """
    report = launch_body(body, [buffer], block=1)
    assert "illegal" in [f.kind for f in report.findings]
    assert "holds no tensor map" in str(report)
