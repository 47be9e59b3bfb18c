"""What the records of operators over rows have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch

from tilewright.dsl import KernelFactory, Target
from tilewright.runtime import use
from tilewright.schedules import Schedule

from .operator import TARGETS, Lowering, Operator, Tolerance
from .values import torch_dtype

Make = Callable[..., torch.Tensor]
Arguments = dict[str, Any]


def _around(values: Mapping[str, Any]) -> AbstractContextManager[None]:
    return nullcontext()


def _targets(values: Mapping[str, Any]) -> tuple[str, ...]:
    return TARGETS


def row_record(
    name: str,
    summary: str,
    schema: str,
    function: Callable[..., Any],
    *,
    parameters: Mapping[str, Any],
    samples: tuple[Mapping[str, Any], ...],
    arguments: Callable[[Mapping[str, Any], torch.dtype, Make], Arguments],
    program: Callable[[Arguments], tuple[KernelFactory, Mapping[str, Any]]],
    definition: Callable[..., Any],
    differentiable: bool = True,
) -> Operator:
    """The record of an operator whose programs need no schedule and run on every target.

    Args:
        name, summary, schema, function, parameters, samples, differentiable: as in ``Operator``; a size of 0 counts as
            1 where a program is compiled.
        arguments: values, their dtype and a maker of tensors ``make(shape, dtype)`` -> the call's named arguments.
        program: those arguments, made without data -> the forward program and what it is bound to on the current
            target.
        definition: ``definition(wide, **arguments)``: torch's result, computed in ``wide`` or else in the own dtype.
    """

    def made(values: Mapping[str, Any], make: Make) -> Arguments:
        return arguments(values, torch_dtype(name, values["dtype"]), make)

    def inputs(values: Mapping[str, Any], generator: torch.Generator) -> tuple[tuple[Any, ...], Arguments]:
        return (), made(values, partial(_random, generator))

    def lowering(values: Mapping[str, Any], target: Target) -> Lowering:
        sizes = {key: 1 if type(value) is int and value == 0 else value for key, value in values.items()}
        with use(target=target):
            factory, bound = program(made(sizes, _without_data))
        return Lowering(factory.bind(**bound), Schedule())

    return Operator(
        name=name,
        summary=summary,
        schema=schema,
        function=function,
        parameters=parameters,
        inputs=inputs,
        lowering=lowering,
        reference=partial(definition, torch.float64),
        baseline=partial(definition, None),
        samples=samples,
        tolerance=Tolerance(),
        targets=_targets,
        differentiable=differentiable,
        around=_around,
    )


def _random(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, below: int = 0) -> torch.Tensor:
    if below:
        return torch.randint(below, shape, generator=generator, dtype=dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def _without_data(shape: tuple[int, ...], dtype: torch.dtype, below: int = 0) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")
