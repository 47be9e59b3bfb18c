"""Making operands of a matmul and judging its result, shared by the tests of matmul."""

from contextlib import contextmanager

import torch

import tilewright as tw
from tilewright.ops import find_operator, gemm

GEMM = find_operator("gemm")
SHORT = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "i8": torch.int8,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}


def matrix(*shape, dtype=torch.float16, transposed=False, seed=0):
    """Normally distributed values (all bytes of int8), the last two dimensions stored transposed or not."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if transposed:
        shape = (*shape[:-2], shape[-1], shape[-2])
    if dtype == torch.int8:
        values = torch.randint(-128, 128, shape, generator=generator).to(dtype)
    else:
        values = torch.randn(shape, generator=generator).to(dtype)
    return values.mT if transposed else values


def check(target, a, b, bias=None, activation=None, out_dtype=None):
    """Run on a target's virtual GPU; the error is at most twice that of torch in the same types, against float64."""
    with tw.use(target=target):
        result = gemm(a, b, bias, activation, out_dtype)
    compared = GEMM.compare(result, a, b, bias, activation, out_dtype)
    assert result.is_contiguous()
    assert compared.ok, compared
    return result


@contextmanager
def precision(name):
    """``torch.backends.cuda.matmul.fp32_precision`` for a while."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = name
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
