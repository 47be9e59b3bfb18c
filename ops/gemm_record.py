"""The record of matmul: how its calls are described, made, compared and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from tilewright.dsl import Target

from .gemm import SCHEMA, gemm, problem_of
from .gemm_arguments import FP8, check_target, result_dtype
from .gemm_reference import baseline, reference
from .gemm_variants import variant_of
from .gemm_views import folded, operand_of
from .operator import TARGETS, Lowering, Operator, Tolerance
from .values import torch_dtype

PARAMETERS: Mapping[str, Any] = {
    "m": 4096,
    "n": 4096,
    "k": 4096,
    "batch": 0,
    "dtype": "float16",
    "transpose_a": False,
    "transpose_b": False,
    "bias": False,
    "activation": None,
    "out_dtype": None,
    "tf32": False,
}


def _types(values: Mapping[str, Any]) -> tuple[torch.dtype, torch.dtype]:
    operand = torch_dtype("gemm", values["dtype"])
    wanted = values["out_dtype"]
    return operand, result_dtype(operand, None if wanted is None else torch_dtype("gemm", wanted))


def _random(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if not dtype.is_floating_point:
        return torch.randint(-128, 128, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def _operands(
    values: Mapping[str, Any], make: Callable[[tuple[int, ...], torch.dtype], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """A, B and the bias of a call, made by ``make`` as they are stored."""
    operand, result = _types(values)
    m, n, k = values["m"], values["n"], values["k"]
    batch = (values["batch"],) if values["batch"] else ()
    a = make((*batch, k, m) if values["transpose_a"] else (*batch, m, k), operand)
    b = make((*batch, n, k) if values["transpose_b"] else (*batch, k, n), operand)
    bias = make((n,), result) if values["bias"] else None
    return (a.mT if values["transpose_a"] else a), (b.mT if values["transpose_b"] else b), bias


def inputs(values: Mapping[str, Any], generator: torch.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Normally distributed operands (all of int8), stored transposed where the values say so."""
    _, result = _types(values)
    left, right, bias = _operands(values, lambda shape, dtype: _random(shape, dtype, generator))
    return (left, right), {"bias": bias, "activation": values["activation"], "out_dtype": result}


@contextmanager
def around(values: Mapping[str, Any]) -> Iterator[None]:
    """The precision of float32 products that the values ask for."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32" if values["tf32"] else "ieee"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def lowering(values: Mapping[str, Any], target: Target) -> Lowering:
    """The program and schedule of the call's launch, for operands as ``inputs`` makes them (a size of 0 counts as 1).

    Raises:
        OperandTypeError: the target's units do not take the dtype.
    """
    operand, result = _types(values)
    check_target(operand, target)
    sizes = {**values, **{name: max(1, values[name]) for name in ("m", "n", "k")}}
    left, right, bias = _operands(sizes, lambda shape, dtype: torch.empty(shape, dtype=dtype, device="meta"))
    c = torch.empty((*left.shape[:-1], right.shape[-1]), dtype=result, device="meta")
    one, other, out = next(folded(left, right, c))
    with around(values):
        problem = problem_of(operand_of(one), operand_of(other), bias, values["activation"], out)
    variant = variant_of(problem, target)
    return Lowering(variant.recipe(target).program(), variant.schedule())


def targets(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Targets whose units take the dtype."""
    return TARGETS[1:] if torch_dtype("gemm", values["dtype"]) in FP8 else TARGETS


_LAYOUTS = tuple({"transpose_a": a, "transpose_b": b} for a in (False, True) for b in (False, True))
_ODD = ((1, 1, 1), (1, 512, 96), (127, 255, 63), (33, 7, 1000), (0, 16, 8), (16, 24, 0))

SAMPLES: tuple[Mapping[str, Any], ...] = (
    *({"m": 96, "n": 80, "k": 72, "bias": True, "activation": "gelu", **layout} for layout in _LAYOUTS),
    *({"m": m, "n": n, "k": k} for m, n, k in _ODD),
    *({"m": 64, "n": 48, "k": 64, "dtype": dtype} for dtype in ("bfloat16", "float32", "int8", "float8_e4m3fn")),
    {"m": 40, "n": 32, "k": 48, "batch": 3},
)

RECORD = Operator(
    name="gemm",
    summary="activation(a @ b + bias) for any layout, size and batch",
    schema=SCHEMA,
    function=gemm,
    parameters=PARAMETERS,
    inputs=inputs,
    lowering=lowering,
    reference=reference,
    baseline=baseline,
    samples=SAMPLES,
    tolerance=Tolerance(),
    targets=targets,
    differentiable=True,
    around=around,
)
