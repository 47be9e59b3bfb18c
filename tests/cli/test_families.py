"""Counting instruction families in PTX."""

from __future__ import annotations

from tilewright.cli.families import families_of

PTX = """
	.reg .b32 %r<9>;
	mov.u32 %r1, %tid.x;
@%p1 bra L1;
	cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd4, {%r2, %r5}], [%r3];
	@!%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd4], 16, [%r3];
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {%r2, %r5}], [%r1];
	cp.async.cg.shared.global [%r21], [%rd24], 16;
	wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;
	{ mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1}; }
	ld.global.nc.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];
	st.global.b32 [%rd1], %r1;
	bar.sync 0;
"""


def test_families() -> None:
    assert families_of(PTX) == {
        "tma_load": 2,
        "tma_store": 1,
        "wgmma": 1,
        "mma": 1,
        "cp_async": 1,
        "barrier": 1,
        "global_load_16": 1,
        "global_load": 1,
        "global_store": 1,
    }


def test_none() -> None:
    assert families_of("") == {}
