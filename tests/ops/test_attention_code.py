"""What the generated code of attention, forward and backward, uses of each machine, for every head size."""

import pytest
import torch
from attention_plain import operands
from judging import TARGETS

import tilewright as tw
from tilewright.ops import attention
from tilewright.ops.attention_tiles import HEADS
from tilewright.ops.kernels import planning

# (target, head sizes, kernel) -> why it may spill
WIDE = "operands of 192 or more columns beside an accumulator of as many, in 255 registers; at most 30 of them spill"
SPILLS = {
    ("sm_80", (192, 128), "attention_queries_backward"): WIDE,
    ("sm_80", (192, 192), "attention_keys_backward"): WIDE,
    ("sm_80", (192, 192), "attention_queries_backward"): WIDE,
    ("sm_80", (256, 256), "attention_queries_backward"): WIDE,
}


def kernels(dims, target):
    """All kernels of a causal step with gradients, compiled."""
    leaves = [x.requires_grad_() for x in operands(1, 9, 9, 2, 1, *dims)]
    with tw.use(target=target), planning() as recipes:
        torch.autograd.grad(attention(*leaves, causal=True).sum(), leaves)
    return [(recipe.factory.__name__, recipe.kernel) for recipe in recipes]


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dims", HEADS)
def test_matrix_units_do_the_work_and_nothing_spills(dims, target):
    spills = {}
    for name, kernel in kernels(dims, target):
        assert ("wgmma.mma_async" in kernel.ptx) == (target == "sm_90a")
        assert ("cp.async.bulk.tensor" in kernel.ptx) == (target == "sm_90a")
        assert ("mma.sync" in kernel.ptx) == (target == "sm_80")
        for each in kernel.resources:
            if each.spill_stores or each.spill_loads:
                spills[target, dims, name] = each.spill_stores
    assert set(spills) == {key for key in SPILLS if key[:2] == (target, dims)}
