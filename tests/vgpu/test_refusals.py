"""What memory and control instructions may not do: refused with opcode and line, or reported where it happens."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright import vgpu
from tilewright.vgpu.errors import PtxSyntaxError, UnsupportedInstruction

CLUSTER = {"grid": 2, "cluster": 2}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("st.const.b32 [%a0], %t;", "st.const.b32 has state space .const"),
        ("ld.relaxed.global.b32 %r0, [%a0];", "ld.relaxed.global.b32 has .relaxed without a scope"),
        ("ld.gpu.global.b32 %r0, [%a0];", "ld.gpu.global.b32 has a scope .gpu without .relaxed"),
        ("ld.release.gpu.global.b32 %r0, [%a0];", "has .release, which ld does not take"),
        ("ld.mmio.relaxed.gpu.global.b32 %r0, [%a0];", "has .mmio, which goes with .relaxed.sys alone"),
        ("ld.weak.global.nc.b32 %r0, [%a0];", "has .nc and .weak"),
        ("ld.volatile.global.L1::evict_last.b32 %r0, [%a0];", "has .volatile and .L1::evict_last"),
        ("ld.global.v4.b64 {%d0, %d1, %d2, %d3}, [%a0];", "moves 32 bytes; an access has at most 16"),
        ("ld.global.v2.b32 %r0, [%a0];", "has one register where 2 belong"),
        ("st.global.cv.b32 [%a0], %t;", "st.global.cv.b32 has unsupported modifier .cv"),
        ("atom.global.add.f16 %h0, [%a0], %h1;", "atom.global.add.f16 needs .noftz"),
        ("atom.global.add.s64 %d0, [%a0], %d1;", "atom.global.add.s64 needs one of .s32, .u32, .u64"),
        ("red.acquire.gpu.global.add.u32 [%a0], %t;", "has unsupported modifier .acquire"),
        ("atom.shared.add.v2.f32 {%f0, %f1}, [%r0], {%f0, %f1};", "has a vector in shared memory"),
        ("cp.async.cg.shared.global [%r0], [%a0], 8;", "cp.async.cg.shared.global: 8 is not 16"),
        ("cp.async.ca.shared.global [%r0], [%a0], 12;", "cp.async.ca.shared.global: 12 is not 4 or 8 or 16"),
        ("mbarrier.arrive.expect_tx.shared.b64 _, [%r0];", "has 2 operands where 3 belong"),
        ("mbarrier.arrive.shared.b64 [%r0];", "has 1 operands where 2 or 3 belong"),
        ("mbarrier.arrive.shared::cluster.b64 %d0, [%r0];", "operand '%d0' must be _: there is no result"),
        ("mbarrier.arrive.relaxed.shared.b64 _, [%r0];", "an order and one of the scopes .cta, .cluster go together"),
        ("mbarrier.init.shared::cluster.b64 [%r0], 1;", "has state space .shared::cluster"),
        ("barrier.cluster.arrive.acquire;", "barrier.cluster.arrive.acquire is no spelling of barrier"),
        ("fence.acq_rel;", "fence.acq_rel is no spelling of fence; it takes fence"),
        ("setmaxnreg.inc.sync.aligned.u32 100;", "100 is not one of 24 to 256, a multiple of 8"),
        ("setmaxnreg.inc.sync.aligned.u32 264;", "264 is not one of 24 to 256, a multiple of 8"),
        ("griddepcontrol;", "griddepcontrol is no spelling of griddepcontrol"),
        ("shfl.up.b32 %r0, %t, 1, 0;", "shfl.up.b32 needs .sync on sm_70 and newer"),
        ("vote.all.pred %p0, %p1;", "vote.all.pred needs .sync on sm_70 and newer"),
        ("discard.global.L2 [%a0], 64;", "discard.global.L2: 64 is not 128"),
        ("pmevent 16;", "pmevent: 16 is not one of 0 to 15"),
        (
            "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%a0, {%r0}];",
            "textures or surfaces, which the virtual GPU does not",
        ),
        ("sust.b.1d.b32.trap [%a0, {%r0}], %r1;", "sust.b.1d.b32.trap works on textures or surfaces"),
        ("istypep.texref %p0, %a0;", "istypep.texref works on textures or surfaces"),
        (
            "tcgen05.fence::before_thread_sync;",
            "tcgen05.fence::before_thread_sync needs sm_100a, which the virtual GPU",
        ),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%r1];", "tcgen05.ld.sync.aligned.32x32b.x1.b32 needs sm_100a"),
    ],
)
def test_statements(make_kernel, statement, message):
    ptx = make_kernel(f"\n{statement}", 1)
    line = next(n for n, text in enumerate(ptx.splitlines(), 1) if statement in text)
    with pytest.raises((UnsupportedInstruction, PtxSyntaxError), match=f"^PTX line {line}: .*{re.escape(message)}"):
        vgpu.launch(ptx, "k", 1, 32, [np.zeros(32, np.uint32)], target="sm_90a")


@pytest.mark.parametrize("kind", ["texref", "samplerref", "surfref"])
def test_texture_variables(launch_body, kind):
    with pytest.raises(UnsupportedInstruction, match=rf"PTX line 4: \.{kind} picture is a texture or surface"):
        launch_body("", [], module=f".global .{kind} picture;")


def findings(launch_body, body, args=(), **options):
    options.setdefault("block", 32)
    return launch_body(body, list(args), **options).findings


def test_the_cluster_barrier(launch_body):
    arrive, wait = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"
    assert not findings(launch_body, 3 * (arrive + wait), **CLUSTER)
    for body, message in (
        (arrive + arrive + wait, "arrives at the cluster barrier again and has not waited"),
        (wait, "waits at the cluster barrier and has not arrived"),
        (arrive + wait + wait, "waits at the cluster barrier and has not arrived"),
        (f"setp.lt.u32 %p0, %t, 4; @%p0 {arrive}", "barrier.cluster.arrive.aligned is run by a part of the warp"),
        (f"{arrive} setp.lt.u32 %p0, %t, 4; @%p0 {wait}", "barrier.cluster.wait.aligned is run by a part of the warp"),
    ):
        found = findings(launch_body, body, **CLUSTER)
        assert found[0].kind == "barrier"
        assert message in found[0].message
    parts = "setp.lt.u32 %p0, %t, 4; @%p0 barrier.cluster.arrive; @!%p0 barrier.cluster.arrive; barrier.cluster.wait;"
    assert not findings(launch_body, parts, **CLUSTER)


def test_register_counts_of_a_warpgroup(launch_body):
    body = "setp.lt.u32 %p0, %t, {first}; @!%p0 bra B; setmaxnreg.dec.sync.aligned.u32 24; bra END;"
    body += "B: setmaxnreg.inc.sync.aligned.u32 240; END:"
    assert not findings(launch_body, body.format(first=128), block=256)
    (finding,) = findings(launch_body, body.format(first=32), block=256)
    assert finding.kind == "illegal"
    assert "warps 0 and 1 of one warpgroup run different setmaxnreg instructions" in finding.message
    (finding,) = findings(launch_body, body.format(first=16), block=256)
    assert "all 32 threads of a warp execute together ran without some" in finding.message


def test_addresses_of_other_blocks(launch_body):
    out = np.zeros(4, np.uint32)
    for text in ("mapa.u64 %d0, %a0, 0;", "getctarank.u32 %r0, %a0;".replace("u32 %r0", "u64 %r0")):
        (finding,) = findings(launch_body, text, [out], **CLUSTER, block=1)
        assert finding.kind == "illegal"
        assert re.fullmatch(r"generic address 0x[0-9a-f]+ is not in shared memory", finding.message)
    body = """.shared .align 4 .b8 s[16]; mov.u64 %d0, s; cvta.shared.u64 %d1, %d0; mov.u32 %r9, %cluster_ctarank;
        mapa.u64 %d2, %d1, 1; getctarank.u64 %r0, %d2; getctarank.u64 %r1, %d1; mapa.shared::cluster.u32 %r2, s+4, 1;
        getctarank.shared::cluster.u32 %r3, %r2; mapa.shared::cluster.u64 %d3, %d0, 0;
        getctarank.shared::cluster.u64 %r4, %d3; setp.eq.u32 %p0, %r9, 1;
        @%p0 st.global.v4.u32 [%a0], {%r0, %r1, %r3, %r4};"""
    assert not findings(launch_body, body, [out], **CLUSTER, block=1)
    assert out.tolist() == [1, 1, 1, 0]


def test_prefetches_in_bulk(launch_body):
    data = np.zeros(64, np.uint32)
    start = -data.ctypes.data % 16
    text = "cp.async.bulk.prefetch.L2.global [%a0+{}], {};"
    assert not findings(launch_body, text.format(start, 64), [data], block=1)
    for offset, count, kind in ((4, 64, "misaligned"), (0, 20, "illegal")):
        (finding,) = findings(launch_body, text.format(start + offset, count), [data], block=1)
        assert finding.kind == kind
        assert "both are multiples of 16" in finding.message


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_copies_that_ignore_their_source(launch_body, mode):
    """Where the predicate holds, zeros are written and the address may be anything."""
    source, out = np.arange(1, 129, dtype=np.uint32), np.zeros(128, np.uint32)
    body = """.shared .align 16 .b8 s[512]; mov.u32 %r1, s; shl.b32 %r0, %t, 4; add.u32 %r1, %r1, %r0;
        mad.wide.u32 %d0, %t, 16, %a0; and.b32 %r2, %t, 1; setp.eq.u32 %p0, %r2, 0; @%p0 mov.u64 %d0, 64;
        cp.async.cg.shared.global{hint} [%r1], [%d0], 16, {predicate}{policy}; cp.async.wait_all;
        ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r1]; mad.wide.u32 %d1, %t, 16, %a1;
        st.global.v4.u32 [%d1], {{%r4, %r5, %r6, %r7}};"""
    wanted = np.where(np.arange(128) // 4 % 2 == 0, 0, source)
    hints = (("", ""), (".L2::cache_hint", ", %d9"))
    for hint, policy in hints:
        text = body.format(predicate="%p0", hint=hint, policy=policy).replace(
            "mov.u32 %r1, s;", "mov.u64 %d9, 0; mov.u32 %r1, s;"
        )
        assert not findings(launch_body, text, [source, out], mode=mode)
        assert np.array_equal(out, wanted)
    flipped = body.format(predicate="!%p1", hint="", policy="").replace("@%p0 mov", "setp.ne.u32 %p1, %r2, 0; @%p0 mov")
    assert not findings(launch_body, flipped, [source, out], mode=mode)
    assert np.array_equal(out, wanted)
