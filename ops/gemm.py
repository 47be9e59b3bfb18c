"""Matmul with fused bias and activation: ``gemm(a, b, bias, activation, out_dtype)`` on any layout and size."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from tilewright.dsl import Target
from tilewright.runtime import current_schedule, current_target, register_operator, short_name
from tilewright.schedules import Schedule

from .gemm_arguments import check_arguments, check_target
from .gemm_gradient import backward, setup_context
from .gemm_reference import epilogue
from .gemm_variants import Problem, Variant, variant_of
from .gemm_views import Operand, folded, load_width, operand_of
from .kernels import Recipe, prepared

MAX_GRID = 65535  # blocks along y and z that CUDA launches at once

SCHEMA = "(Tensor a, Tensor b, Tensor? bias=None, str? activation=None, ScalarType? out_dtype=None) -> Tensor"


@functools.lru_cache(maxsize=1024)
def recipe_of(variant: Variant, target: Target, schedule: Schedule | None) -> Recipe:
    """How the kernel of a variant is compiled; ``schedule`` None takes the variant's own."""
    return variant.recipe(target, schedule)


def _implementation(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    shape, result = check_arguments(a, b, bias, activation, out_dtype)
    target = current_target()
    check_target(a.dtype, target)
    c = torch.empty(shape, dtype=result, device=a.device)
    if c.numel() == 0:
        return c
    if a.shape[-1] == 0:
        return c.copy_(epilogue(torch.zeros(shape[-1:], device=a.device), bias, activation).to(result))
    if bias is not None and (bias.stride(0) != 1 or bias.data_ptr() % 16):
        bias = bias.clone(memory_format=torch.contiguous_format)
    for parts in folded(a, b, c):
        for part in _launchable(*parts):
            left, right, out = operand_of(part[0]), operand_of(part[1]), part[2]
            variant = variant_of(problem_of(left, right, bias, activation, out), target)
            run_variant(variant, target, left, right, bias, out)
    return c


def _launchable(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Cut what exceeds the grid: batches of 65535 matrices, rows of 65535 of the smallest tiles."""
    rows = MAX_GRID * 16
    for z in range(0, c.shape[0], MAX_GRID):
        part_a, part_b = (x if x.shape[0] == 1 else x[z : z + MAX_GRID] for x in (a, b))
        for y in range(0, c.shape[1], rows):
            yield part_a[:, y : y + rows], part_b, c[z : z + MAX_GRID, y : y + rows]


def problem_of(
    left: Operand, right: Operand, bias: torch.Tensor | None, activation: str | None, c: torch.Tensor
) -> Problem:
    """The numbers of one launch."""
    return Problem(
        m=c.shape[1],
        n=c.shape[2],
        batch=c.shape[0],
        dtype=short_name(left.tensor.dtype),
        out_dtype=short_name(c.dtype),
        transpose_a=left.transposed,
        transpose_b=right.transposed,
        align=min(left.align, right.align),
        width=load_width((left, right)),
        bias_dtype=None if bias is None else short_name(bias.dtype),
        activation=activation,
        tensor_cores=left.tensor.dtype != torch.float32 or torch.backends.cuda.matmul.fp32_precision == "tf32",
    )


def run_variant(
    variant: Variant, target: Target, left: Operand, right: Operand, bias: torch.Tensor | None, c: torch.Tensor
) -> None:
    """Launch one kernel on operands that it fits; C is (batch, M, N)."""
    kernel = prepared(recipe_of(variant, target, current_schedule()))
    tensors = (left.tensor, right.tensor, c) if bias is None else (left.tensor, right.tensor, bias, c)
    kernel(*tensors, *_scalars(variant, left, right, c))


def _scalars(variant: Variant, left: Operand, right: Operand, c: torch.Tensor) -> tuple[int, ...]:
    read, write = variant.load_elements, variant.store_elements
    return (
        left.pitch // read,
        right.pitch // read,
        c.stride(1) // write,
        left.stride // read,
        right.stride // read,
        c.stride(0) // write,
    )


def _fake(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    shape, result = check_arguments(a, b, bias, activation, out_dtype)
    return torch.empty(shape, dtype=result, device=a.device)


_operator = register_operator(
    "gemm", SCHEMA, _implementation, fake=_fake, backward=backward, setup_context=setup_context
)


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """activation(a @ b + bias), accumulated in float32 (int32 for int8), bias and activation applied before rounding.

    Layouts are read from the strides: transposed views, row pitches and odd offsets cost no copy; a view with no
    dimension of stride 1 is copied first. Differentiable, twice too, for float16, bfloat16 and float32.

    Args:
        a: (..., M, K), float16, bfloat16, float32, int8, or on sm_89 and sm_90a float8_e4m3fn, float8_e5m2.
        b: (K, N) or (..., K, N) of the same dtype; leading dimensions broadcast as in ``torch.matmul``.
        bias: (N,) of the result's dtype or float32 (int32 for int8), added to every row.
        activation: ``relu``, ``gelu`` (with the error function), ``silu``; ``relu`` alone for int8.
        out_dtype: default that of the operands, bfloat16 for 8-bit floats, int32 for int8.

    Returns:
        (..., M, N), contiguous. float32 operands run on tensor cores as tf32 when
        ``torch.backends.cuda.matmul.fp32_precision`` is ``tf32`` (or ``allow_tf32`` is set), else in full precision.

    Raises:
        OperandTypeError: mixed dtypes, or dtypes that the operator or the target cannot take.
        ShapeError: a rank below 2, a K mismatch, batches that do not broadcast, a bias of another shape.
        DeviceMismatch: tensors on different devices.
        OptionError: an unknown activation.
    """
    result: torch.Tensor = _operator(a, b, bias, activation, out_dtype)
    return result
