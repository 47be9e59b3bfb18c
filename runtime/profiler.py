"""TileLang's profiler of a kernel: inputs of the declared shapes, a comparison with a reference, a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch

from tilewright.dsl import tilelang
from tilewright.lowering import ScalarArgument, TensorArgument

from .dtypes import torch_dtype
from .errors import ArgumentError

if TYPE_CHECKING:
    from .kernel import Kernel

_SUPPLIES = ("Auto", "Integer", "Uniform", "Normal", "Randn", "Zero", "One")


@dataclass(frozen=True)
class Profiler:
    """What ``kernel.get_profiler()`` gives, under the names of TileLang's profiler.

    Args:
        kernel: the kernel.
        supply: how inputs are filled, ``Auto, Integer, Uniform, Normal, Randn, Zero`` or ``One``: Integer draws from
            -2 to 2 (unsigned and bool from 0 on), Uniform from -1 to 1, Normal and Randn from N(0, 1); Auto is Uniform
            for floating-point types and Integer for the others.

    Raises:
        ArgumentError: no such supply.
    """

    kernel: Kernel
    supply: str = "Auto"

    def __post_init__(self) -> None:
        if self.supply not in _SUPPLIES:
            raise ArgumentError(f"no tensor supply {self.supply}", remedy=f"use one of {', '.join(_SUPPLIES)}")

    def __call__(self, *args: Any) -> Any:
        """Run the kernel."""
        return self.kernel(*args)

    @property
    def func(self) -> Kernel:
        """The kernel."""
        return self.kernel

    def inputs(self, sizes: Mapping[str, int] | None = None) -> list[torch.Tensor]:
        """Fresh inputs on the device where the kernel runs without tensors; ``sizes`` gives its shape variables.

        Raises:
            ArgumentError: a shape variable without a size, or an input that is no tensor.
        """
        given, found = dict(sizes or {}), []
        for position in self.kernel.signature.inputs:
            argument = self.kernel.plan.arguments[position]
            if not isinstance(argument, TensorArgument):
                kind = "number" if isinstance(argument, ScalarArgument) else "address"
                raise ArgumentError(f"{argument.name} is a {kind}", remedy="pass input_tensors")
            missing = sorted({name for extent in argument.shape for name in extent.variables} - given.keys())
            if missing:
                raise ArgumentError(
                    f"{argument.name} has no size for {', '.join(missing)}",
                    remedy="pass input_tensors, or dynamic_symbolic_constraints={name: size}",
                )
            shape = tuple(extent.evaluate_in(given) for extent in argument.shape)
            dtype = torch_dtype(argument.dtype, argument.name)
            found.append(_filled(self.supply, shape, dtype, self.kernel.own_device()))
        return found

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """The result of the kernel, or of ``func``, on fresh inputs."""
        return (func or self.kernel)(*self.inputs())

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Compare the outputs with those of a reference on the same inputs.

        Args:
            reference_program: a function of the inputs; an output that it gives as None is not compared.
            input_tensors: the inputs; None makes them.
            atol: absolute tolerance.
            rtol: relative tolerance.
            max_mismatched_ratio: share of elements that may be outside the tolerances.

        Raises:
            AssertionError: the counts of outputs, or an output's shape or values, differ.
        """
        inputs = list(self.inputs() if input_tensors is None else input_tensors)
        expected = _outputs(reference_program(*inputs))
        actual = _outputs(self.kernel(*inputs))
        if len(actual) != len(expected):
            raise AssertionError(f"the kernel returns {len(actual)} outputs, the reference {len(expected)}")
        for index, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
            if theirs is not None:
                _compare(f"output {index}", ours, theirs, atol, rtol, max_mismatched_ratio)

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "event",
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> float | list[float]:
        """Milliseconds of a call, taken by TileLang's ``do_bench``.

        The virtual GPU has no clock of its own: there it is the host's time of the simulation, whatever ``backend``
        says, and tells nothing about a GPU.

        Args:
            func: what to time in place of the kernel.
            warmup: milliseconds of calls that do not count; ``n_warmup``, when given, is their number.
            rep: milliseconds of calls that count; ``n_repeat``, when given, is their number.
            input_tensors: the inputs; None makes them.
            backend: the clock on a GPU, one of TileLang's.
            quantiles: which quantiles to return, as a list, in place of one figure.
            return_mode: ``mean``, ``median``, ``min`` or ``max``.
            dynamic_symbolic_constraints: shape variables of the inputs that are made.
        """
        inputs = self.inputs(dynamic_symbolic_constraints) if input_tensors is None else list(input_tensors)
        on_gpu = self.kernel.own_device().type == "cuda"
        return cast(
            "float | list[float]",
            tilelang.profiler.do_bench(
                partial(func or self.kernel, *inputs),
                warmup=warmup,
                rep=rep,
                _n_warmup=n_warmup,
                _n_repeat=n_repeat,
                quantiles=list(quantiles) if quantiles is not None else None,
                backend=backend if on_gpu else "wall",
                return_mode=return_mode,
            ),
        )


def _filled(supply: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if dtype is torch.float4_e2m1fn_x2:  # two numbers a byte, and torch converts to it from nothing
        return torch.randint(0, 256, shape, device=device, dtype=torch.uint8).view(dtype)
    if supply in ("Zero", "One"):
        return torch.full(shape, int(supply == "One"), device=device).to(dtype)
    if supply == "Integer" or not dtype.is_floating_point:
        signed = dtype.is_floating_point or dtype.is_signed
        low, high = (0, 2) if dtype is torch.bool else (-2, 3) if signed else (0, 3)
        return torch.randint(low, high, shape, device=device).to(dtype)
    if supply in ("Normal", "Randn"):
        return torch.randn(shape, device=device).to(dtype)
    return (torch.rand(shape, device=device) * 2 - 1).to(dtype)


def _outputs(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, tuple | list) else [result]


def _compare(name: str, ours: Any, theirs: Any, atol: float, rtol: float, ratio: float) -> None:
    if ours.shape != theirs.shape:
        raise AssertionError(f"{name} has shape {tuple(ours.shape)}, that of the reference {tuple(theirs.shape)}")
    wide = torch.float64 if not ours.is_complex() else torch.complex128
    close = torch.isclose(ours.to(wide), theirs.to(ours.device, wide), rtol=rtol, atol=atol, equal_nan=True)
    wrong = close.numel() - int(close.sum())
    if wrong > ratio * close.numel():
        worst = (ours.to(wide) - theirs.to(ours.device, wide)).abs().max()
        raise AssertionError(
            f"{name}: {wrong} of {close.numel()} elements differ by more than atol = {atol}, rtol = {rtol}; "
            f"the largest difference is {float(worst):.4g}"
        )
