"""Each mutation on a text of its own: what it makes of the statement, and what it leaves alone."""

from __future__ import annotations

import pytest
from mutations import MUTATIONS
from ptx_text import Ptx, Statement, split_operands

WAIT = """mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2;
@P1 bra DONE;
bra LAB_WAIT;"""

# kind, text, line, what becomes of the text
EDITS = [
    ("barrier dropped", "bar.sync 0;", "// dropped"),
    ("barrier dropped", "barrier.sync %r1, %r2;", "// dropped"),
    ("barrier of a warp", "bar.sync 1, 128;", "bar.warp.sync 0xffffffff;"),
    ("barrier of 64", "bar.sync 0;", "bar.sync 0, 64;"),
    ("barrier of 64", "bar.sync %r1, %r2;", "bar.sync %r1, 64;"),
    ("cluster barrier dropped", "barrier.cluster.wait.acquire.aligned;", "// dropped"),
    (
        "cluster barrier relaxed",
        "barrier.cluster.arrive.release.aligned;",
        "barrier.cluster.arrive.relaxed.aligned;",
    ),
    ("wait dropped", WAIT, "// dropped\n// dropped\n// dropped"),
    (
        "parity shifted",
        WAIT,
        ".reg .b32 %mutant; xor.b32 %mutant, %r2, 1; mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %mutant;\n"
        "@P1 bra DONE;\nbra LAB_WAIT;",
    ),
    ("arrival dropped", "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];", "// dropped"),
    ("arrival dropped", "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];", "// dropped"),
    (
        "arrival too early",
        "@%p1 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];",
        "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];",
    ),
    (
        "one arrival more",
        "mbarrier.init.shared::cta.b64 [%r1], 128;",
        ".reg .b32 %mutant; add.s32 %mutant, 128, 1; mbarrier.init.shared::cta.b64 [%r1], %mutant;",
    ),
    (
        "one arrival less",
        "mbarrier.init.shared::cta.b64 [%r1], %r2;",
        ".reg .b32 %mutant; add.s32 %mutant, %r2, -1; mbarrier.init.shared::cta.b64 [%r1], %mutant;",
    ),
    ("expected bytes dropped", "mbarrier.expect_tx.shared::cta.b64 [%r1], %r2;", "// dropped"),
    (
        "expected bytes dropped",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;",
        "mbarrier.arrive.shared::cta.b64 _, [%r1];",
    ),
    (
        "expected bytes halved",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;",
        ".reg .b32 %mutant; shr.u32 %mutant, %r2, 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %mutant;",
    ),
    (
        "expected bytes plus 16",
        "mbarrier.expect_tx.shared::cta.b64 [%r1], %r2;",
        ".reg .b32 %mutant; add.s32 %mutant, %r2, 16; mbarrier.expect_tx.shared::cta.b64 [%r1], %mutant;",
    ),
    ("proxy fence dropped", "fence.proxy.async.shared::cta;", "// dropped"),
    ("mbarrier_init fence dropped", "fence.mbarrier_init.release.cluster;", "// dropped"),
    ("fence dropped", "membar.gl;", "// dropped"),
    ("fence of the block", "membar.gl;", "membar.cta;"),
    ("fence of the block", "fence.acq_rel.cluster;", "fence.acq_rel.cta;"),
    ("order relaxed", "ld.acquire.gpu.global.u32 %r1, [%rd1];", "ld.relaxed.gpu.global.u32 %r1, [%rd1];"),
    ("group wait dropped", "cp.async.wait_all;", "// dropped"),
    ("group wait dropped", "wgmma.wait_group.sync.aligned 0;", "// dropped"),
    ("group wait of one less", "cp.async.wait_all;", "cp.async.wait_group 1;"),
    ("group wait of one less", "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group.read 1;"),
    ("bulk wait for reads", "cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"),
    ("commit dropped", "wgmma.commit_group.sync.aligned;", "// dropped"),
    ("wgmma fence dropped", "wgmma.fence.sync.aligned;", "// dropped"),
    ("guard dropped", "@!%p1 st.shared.u32 [%r1], %r2;", "st.shared.u32 [%r1], %r2;"),
    ("guard dropped", "@%p1 bra $L1;\nadd.s32 %r1, %r1, 1;\n$L1:", "// dropped\nadd.s32 %r1, %r1, 1;\n$L1:"),
    (
        "store behind the barrier",
        "st.shared.u32 [%r1], %r2;\nadd.s32 %r3, %r3, 1;\nbar.sync 0;",
        "// dropped\nadd.s32 %r3, %r3, 1;\nbar.sync 0; st.shared.u32 [%r1], %r2;",
    ),
    (
        "store before the barrier",
        "bar.sync 0;\nadd.s32 %r3, %r3, 1;\nst.shared.v2.u32 [%r1], {%r2, %r4};",
        "st.shared.v2.u32 [%r1], {%r2, %r4}; bar.sync 0;\nadd.s32 %r3, %r3, 1;\n// dropped",
    ),
]
LEFT_ALONE = [
    ("parity shifted", "mbarrier.try_wait.shared::cta.b64 P1, [%r1], %rd2;\n@P1 bra DONE;\nbra LAB_WAIT;"),
    ("arrival dropped", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;"),
    ("bulk wait for reads", "cp.async.bulk.wait_group.read 0;"),
    ("fence dropped", "fence.proxy.async.shared::cta;"),
    ("guard dropped", "$L1:\n@%p1 bra $L1;"),
    ("guard dropped", WAIT + "\nDONE:"),
    ("order relaxed", "barrier.cluster.arrive.release.aligned;"),
    ("store behind the barrier", "st.shared.u32 [%r1], %r2;\n$L1:\nbar.sync 0;"),
    ("store before the barrier", "bar.sync 0;\nadd.s32 %r2, %r3, 1;\nst.shared.u32 [%r1], %r2;"),
]


def results(kind: str, text: str) -> list[str]:
    ptx = Ptx(text)
    edits = [MUTATIONS[kind](ptx, line, statement) for line, statement in ptx.statements.items()]
    return [ptx.edited(edit) for edit in edits if edit is not None]


@pytest.mark.parametrize(("kind", "text", "expected"), EDITS)
def test_edit(kind: str, text: str, expected: str) -> None:
    assert results(kind, text) == [expected]


def test_every_mutation_has_a_case_and_says_what_it_does() -> None:
    assert {kind for kind, _, _ in EDITS} == set(MUTATIONS)
    assert all(mutation.__doc__ for mutation in MUTATIONS.values())


@pytest.mark.parametrize(("kind", "text"), LEFT_ALONE)
def test_left_alone(kind: str, text: str) -> None:
    assert results(kind, text) == []


def test_statements() -> None:
    ptx = Ptx(".reg .pred p;\n\t@%p1 st.global.v2.f32 [%rd1+8], {%f1, %f2};  // two\nL:\n\tret;")
    assert ptx.statements == {
        1: Statement("@%p1", "st.global.v2.f32", ("[%rd1+8]", "{%f1, %f2}")),
        3: Statement("", "ret", ()),
    }
    assert split_operands("[%rd1, {%r1, %r2}], [%r3], 7") == ("[%rd1, {%r1, %r2}]", "[%r3]", "7")
