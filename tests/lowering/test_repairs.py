"""The repair of symbolic wait counts gives each iteration the count that its pending groups demand."""

import re

import pytest
from tvm import tirx
from tvm.ir import Op

from tilewright.dsl import Target, rewrite
from tilewright.dsl import language as T
from tilewright.lowering import Options
from tilewright.lowering.lower import lowered_source
from tilewright.lowering.repairs.symbolic_wait import constant_waits


@pytest.mark.parametrize("stages", [3, 4])
def test_epilogue_waits_of_a_dynamic_pipeline(gemm, stages):
    k8 = T.dynamic("K8")
    lowered = lowered_source(gemm(256, 256, k8 * 8, stages=stages), Target("sm_80"), Options())
    waits = [int(n) for n in re.findall(r"cp_async_wait<(\d+)>", lowered.cuda)]
    # the loop leaves the stages-1 newest groups in flight; the epilogue drains one more group each iteration
    assert waits == [stages - 1, *range(stages - 2, -1, -1)]
    assert lowered.remarks == ("repair symbolic_wait: 1 waits rewritten",)


def test_static_pipelines_are_left_alone(gemm):
    lowered = lowered_source(gemm(256, 256, 256, stages=3), Target("sm_80"), Options())
    assert lowered.remarks == ()


WAIT = Op.get("tirx.ptx_wait_group")


def wait(count):
    return tirx.Evaluate(tirx.Call("handle", WAIT, [count]))


def counts(stmt):
    found = []

    def visit(node):
        if isinstance(node, tirx.Call) and node.op.same_as(WAIT):
            found.append(node.args[0])

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return [int(c) if isinstance(c, tirx.IntImm) else None for c in found]


def test_counts_never_fall_below_zero():
    k = tirx.Var("k", "int32")
    loop = tirx.For(k, 0, 4, tirx.ForKind.SERIAL, wait(1 - k))
    assert counts(constant_waits(loop)) == [1, 0, 0, 0]


def test_counts_that_nothing_bounds_wait_for_everything():
    assert counts(constant_waits(wait(tirx.Var("n", "int32")))) == [0]


def test_constant_counts_stay():
    assert counts(constant_waits(wait(tirx.IntImm("int32", 2)))) == [2]


def test_wgmma_waits_for_cp_async_behind_a_fence(gemm):
    annotated = {"prefer_instruction": "cp_async"}
    program = gemm(256, 256, 256, stages=3, tile=(128, 64, 64), threads=256)
    for label in ("copy A->As", "copy B->Bs"):
        program = rewrite.annotate_call(program, program.outline().find(label).node, annotated)
    lowered = lowered_source(program, Target("sm_90a"), Options())
    waits = re.findall(r"tl::cp_async_wait<\d+>\(\);\s*(\S+)", lowered.cuda)
    assert waits
    assert set(waits) == {"tl::fence_proxy_async();"}
    assert lowered.remarks == (f"repair async_fence: {len(waits)} fences added",)
    assert "fence_proxy" not in lowered_source(program, Target("sm_80"), Options()).cuda
