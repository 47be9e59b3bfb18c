"""Every type in every layout on every target, with the epilogues in turn; sizes that no tile divides."""

import pytest
import torch
from gemm_cases import SHORT, check, matrix, precision

from tilewright.dsl import Target
from tilewright.ops.gemm import problem_of, recipe_of
from tilewright.ops.gemm_variants import variant_of
from tilewright.ops.gemm_views import operand_of

LAYOUTS = {"nn": (False, False), "nt": (False, True), "tn": (True, False), "tt": (True, True)}
# one epilogue a layout: each type meets each of them
EPILOGUES = {"nn": (False, None), "nt": (True, "relu"), "tn": (True, "gelu"), "tt": (False, "silu")}
M, N, K = 96, 80, 144

TYPES = {
    "sm_80": ("f16", "bf16", "f32", "tf32", "i8"),
    "sm_89": ("e4m3", "e5m2"),
    "sm_90a": ("f16", "bf16", "f32", "tf32", "i8", "e4m3", "e5m2"),
}
CASES = [(target, name, layout) for target, names in TYPES.items() for name in names for layout in LAYOUTS]


def tf32(x):
    """float32 with the ten bits of mantissa that the tensor core reads."""
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize(("target", "name", "layout"), CASES)
def test_types_and_layouts(target, name, layout):
    transposed_a, transposed_b = LAYOUTS[layout]
    with_bias, activation = EPILOGUES[layout]
    dtype = SHORT["f32" if name == "tf32" else name]
    a = matrix(M, K, dtype=dtype, transposed=transposed_a)
    b = matrix(K, N, dtype=dtype, transposed=transposed_b, seed=1)
    result = {"i8": torch.int32, "e4m3": torch.bfloat16, "e5m2": torch.bfloat16}.get(name, dtype)
    bias = (torch.arange(N) - N // 2).to(result) if with_bias else None
    if name == "i8" and activation is not None:
        activation = "relu"
    if name == "tf32":
        a, b = tf32(a), tf32(b)
    with precision("tf32" if name == "tf32" else "ieee"):
        c = check(target, a, b, bias, activation)
        problem = problem_of(operand_of(a[None]), operand_of(b[None]), bias, activation, c[None])
    kernel = recipe_of(variant_of(problem, Target(target)), Target(target), None).kernel
    assert [(r.spill_stores, r.spill_loads) for r in kernel.resources] == [(0, 0)]
    assert ("wgmma" in kernel.ptx) == kernel.plan.launches[0].kernel.startswith("gemm_wgmma")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_sm_89_code_is_that_of_sm_80_for_halves(target):
    a, b = matrix(70, 64), matrix(64, 72, seed=1)
    same = check("sm_89", a, b)
    assert (same - check(target, a, b)).abs().max() <= 2**-10 * same.abs().max()


@pytest.mark.parametrize(("out", "target"), [("f32", "sm_90a"), ("bf16", "sm_80")])
def test_the_result_has_the_type_asked_for(out, target):
    a, b = matrix(64, 64), matrix(64, 64, seed=1)
    assert check(target, a, b, matrix(64, 1, dtype=SHORT[out])[:, 0], None, SHORT[out]).dtype == SHORT[out]


def test_a_float32_bias_is_added_before_rounding():
    a, b = torch.ones(64, 64, dtype=torch.float16) * 32, torch.ones(64, 64, dtype=torch.float16)
    bias = torch.full((64,), 0.75)  # 2048.75 rounds to 2048 in one step, and 0.75 + 0.25 would be lost in two
    result = check("sm_90a", a, b, bias, None, torch.float32)
    assert (result == 2048.75).all()
