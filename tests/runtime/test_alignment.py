"""The alignment a pointer needs is the widest access that the PTX makes through it."""

from __future__ import annotations

import pytest
import torch

from tilewright.runtime import ArgumentError, Kernel, NullDevice, pointer_alignment

PTX = """
.visible .entry other(.param .u64 other_param_0) {
ld.param.u64 %rd1, [other_param_0]; st.global.v4.f32 [%rd1], {%f1,%f1,%f1,%f1}; }
.visible .entry k(
    .param .u64 k_param_0,
    .param .align 64 .b8 k_param_1[128],
    .param .u64 k_param_2,
    .param .u32 k_param_3,
    .param .u64 k_param_4
)
{
    ld.param.u64 %rd1, [k_param_0];
    ld.param.u64 %rd2, [k_param_2];
    ld.param.u64 %rd9, [k_param_4];
    cvta.to.global.u64 %rd3, %rd1;
{
    mul.wide.s32 %rd4, %r6, 4;
}
    add.s64 %rd5, %rd3, %rd4;
    @%p1 ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd5+16];
    add.s64 %rd6, %rd2, %rd4;
    cp.async.ca.shared.global [%r9], [%rd6], 8, 8;
    st.global.u16 [%rd9], %rs1;
    st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2};
}
"""


def test_widest_access_through_each_parameter():
    assert pointer_alignment(PTX, "k") == (16, 1, 8, 1, 2)
    assert pointer_alignment(PTX, "other") == (16,)


def test_absent_kernel():
    assert pointer_alignment(PTX, "absent") == ()


def test_offset_view_is_refused_only_where_it_would_fault(tools):
    """A float32 kernel with 4-byte accesses takes a view that starts 4 bytes in; with 16-byte ones it does not."""
    shifted = torch.zeros(33)[1:]
    narrow = Kernel(tools.artifact(tools.affine_plan(), tools.affine_ptx, "sm_80"), device=NullDevice())
    assert narrow(shifted, 1.0, 0, torch.zeros(32)) is None
    wide = narrow.with_ptx(
        tools.affine_ptx.replace("ld.global.f32 %f2, [%rd6]", "ld.global.v4.f32 {%f2, %f5, %f6, %f7}, [%rd6]")
    )
    with pytest.raises(ArgumentError, match="x starts at an address that is no multiple of 16 bytes"):
        wide.on(NullDevice())(shifted, 1.0, 0, torch.zeros(32))
