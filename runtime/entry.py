"""The call of a kernel as a Python function generated from its signature: checks, outputs, pointers, launch.

The fast path reads each attribute once and branches only on what differs between calls; whatever it does not accept
goes to ``slow``, which names the fault or finds that there is none (a subclass, a tracer, an integer given as numpy).
A launcher is called as ``launch(*objects, *pointers, *values)``: tensors and their addresses in the order of the plan,
then the values named by ``Signature.values``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.lowering import FUNCTIONS, PointerArgument, ScalarArgument, TensorArgument

from .diagnose import integer_range
from .dtypes import torch_dtype
from .signature import Origin, Signature

Launcher = Callable[..., None]


class Missing:
    """The default of every generated parameter: an argument that the caller left out."""


MISSING = Missing()


@dataclass(frozen=True)
class Hooks:
    """What a generated call does outside its fast path.

    ``slow(args, keywords)`` diagnoses; ``align(pointers)`` and ``pitch(values)`` raise or accept;
    ``skip(objects, values)`` says whether a call with an empty tensor has nothing to do; ``prepare(index)`` makes the
    launcher of a device (-1: CPU) and stores it in ``launchers``; ``device()`` is the device of a call without tensors.
    """

    slow: Callable[..., Any]
    align: Callable[[tuple[int, ...]], None]
    pitch: Callable[[tuple[Any, ...]], None]
    skip: Callable[[tuple[Any, ...], tuple[Any, ...]], bool]
    prepare: Callable[[int], Launcher]
    device: Callable[[], torch.device]
    launchers: dict[int, Launcher]


def generate_entry(signature: Signature, hooks: Hooks, *, guarded: bool) -> Callable[..., Any]:
    """The call function. ``guarded`` adds the checks for tracers and gradients and sends faults to ``hooks.slow``.

    Without it the arguments must have passed ``diagnose.check``.
    """
    namespace = _namespace(signature, hooks)
    source = entry_source(signature, guarded=guarded)
    exec(compile(source, f"<call of {signature.plan.name}>", "exec"), namespace)
    function: Callable[..., Any] = namespace["entry"]
    return function


def entry_source(signature: Signature, *, guarded: bool) -> str:
    """The Python text of the call function."""
    parameters = ", ".join(f"_a{i}=_missing" for i in signature.inputs)
    arguments = "".join(f"_a{i}, " for i in signature.inputs)
    prepare = [
        *_device_lines(signature),
        *_shape_lines(signature),
        *_output_lines(signature),
        *_pointer_lines(signature),
    ]
    if not guarded:
        body = prepare
        head = f"def entry({parameters}):"
    else:
        head = f"def entry({parameters + ', ' if parameters else ''}*_extra, **_keywords):"
        slow = f"return _slow(({arguments}*_extra,), _keywords)"
        tests = _guards(signature)
        lines = [*_device_lines(signature), f"if {' or '.join(tests)}:", f"    {slow}", *_shape_lines(signature)]
        agreement = _agreement(signature)
        lines += [f"if {' or '.join(agreement)}:", f"    {slow}"] if agreement else []
        lines += [*_output_lines(signature), *_pointer_lines(signature)]
        body = [
            "try:",
            *(f"    {line}" for line in lines),
            "except (AttributeError, TypeError, ValueError, RuntimeError):",
            f"    {slow}",
        ]
    return "\n".join([head, *(f"    {line}" for line in [*body, *_launch_lines(signature)])]) + "\n"


def _namespace(signature: Signature, hooks: Hooks) -> dict[str, Any]:
    names: dict[str, Any] = {
        **FUNCTIONS,
        "_missing": MISSING,
        "_Tensor": torch.Tensor,
        "_Parameter": torch.nn.Parameter,
        "_grad": torch.is_grad_enabled,
        "_modes": torch._C._len_torch_dispatch_stack,
        "_empty": torch.empty,
        "_empty_strided": torch.empty_strided,
        "_slow": hooks.slow,
        "_bump": torch._C._increment_version,
        "_align": hooks.align,
        "_pitch": hooks.pitch,
        "_skip": hooks.skip,
        "_prepare": hooks.prepare,
        "_default_device": hooks.device,
        "_launchers": hooks.launchers,
    }
    for position, argument in enumerate(signature.plan.arguments):
        if isinstance(argument, TensorArgument):
            names[f"_d{position}"] = torch_dtype(argument.dtype, argument.name)
    return names


def _addressed(signature: Signature) -> list[int]:
    return [i for i, argument in enumerate(signature.plan.arguments) if not isinstance(argument, ScalarArgument)]


def _device_lines(signature: Signature) -> list[str]:
    if signature.tensors:
        return [f"_dev = _a{signature.tensors[0]}.get_device()"]
    return ["_device = _default_device()", "_dev = -1 if _device.type == 'cpu' else _device.index"]


def _guards(signature: Signature) -> list[str]:
    tests = ["_extra", "_keywords"]
    for i in signature.tensors:
        argument = signature.tensor(i)
        tests.append(f"(type(_a{i}) is not _Tensor and type(_a{i}) is not _Parameter)")
        tests.append(f"_a{i}.dtype is not _d{i}")
        if i != signature.tensors[0]:
            tests.append(f"_a{i}.get_device() != _dev")
        if argument.strides is None:
            tests.append(f"not _a{i}.is_contiguous()")
        if _static(argument):
            tests.append(f"_a{i}.shape != ({''.join(f'{e.text}, ' for e in argument.shape)})")
    for i in signature.inputs:
        argument_i = signature.plan.arguments[i]
        if isinstance(argument_i, ScalarArgument):
            tests += _scalar_guards(i, argument_i)
        elif isinstance(argument_i, PointerArgument):
            tests.append(f"(type(_a{i}) is not int and type(_a{i}) is not _Tensor)")
    if signature.tensors:
        tests.append(f"(({' or '.join(f'_a{i}.requires_grad' for i in signature.tensors)}) and _grad())")
    return [*tests, "_modes()"]


def _scalar_guards(position: int, argument: ScalarArgument) -> list[str]:
    if argument.dtype.startswith(("float", "bfloat")):
        return [f"type(_a{position}) is not float"]
    if argument.dtype == "bool":
        return [f"type(_a{position}) is not bool"]
    low, high = integer_range(argument.dtype)
    return [f"type(_a{position}) is not int", f"not {low} <= _a{position} <= {high}"]


def _static(argument: TensorArgument) -> bool:
    return argument.strides is None and all(extent.constant for extent in argument.shape)


def _shape_lines(signature: Signature) -> list[str]:
    lines = []
    for i in signature.tensors:
        argument = signature.tensor(i)
        if not _static(argument):
            axes = range(len(argument.shape))
            lines.append(f"({''.join(f'_s{i}_{axis}, ' for axis in axes)}) = _a{i}.shape")
            if argument.strides is not None:
                lines.append(f"({''.join(f'_t{i}_{axis}, ' for axis in axes)}) = _a{i}.stride()")
    lines += [f"{name} = {_origin_source(origin)}" for name, origin in signature.origins.items()]
    lines += [
        f"{signature.plan.arguments[i].name} = _a{i}"
        for i in signature.scalars
        if signature.plan.arguments[i].name not in signature.plan.variables
    ]
    return lines


def _origin_source(origin: Origin) -> str:
    if origin.kind == "scalar":
        return f"_a{origin.position}"
    source = f"_{'s' if origin.kind == 'shape' else 't'}{origin.position}_{origin.axis}"
    return f"{source} // {origin.factor}" if origin.factor != 1 else source


def _agreement(signature: Signature) -> list[str]:
    known = {(o.position, o.kind, o.axis) for o in signature.origins.values() if o.factor == 1}
    tests = []
    for i in signature.tensors:
        argument = signature.tensor(i)
        if _static(argument):
            continue
        tests += [
            f"_s{i}_{axis} != ({extent.text})"
            for axis, extent in enumerate(argument.shape)
            if (i, "shape", axis) not in known
        ]
        tests += [
            f"(_t{i}_{axis} != ({stride.text}) and _s{i}_{axis} != 1)"
            for axis, stride in enumerate(argument.strides or ())
            if (i, "stride", axis) not in known
        ]
    return tests + [f"{name} > {most}" for name, most in signature.greatest.items()]


def _output_lines(signature: Signature) -> list[str]:
    lines = []
    device = f"_a{signature.tensors[0]}.device" if signature.tensors else "_device"
    for i in (*signature.outputs, *signature.workspaces):
        argument = signature.tensor(i)
        shape = f"({''.join(f'{e.text}, ' for e in argument.shape)})"
        if argument.strides is None:
            lines.append(f"_a{i} = _empty({shape}, dtype=_d{i}, device={device})")
        else:
            strides = f"({''.join(f'{e.text}, ' for e in argument.strides)})"
            lines.append(f"_a{i} = _empty_strided({shape}, {strides}, dtype=_d{i}, device={device})")
    return lines


def _pointer_lines(signature: Signature) -> list[str]:
    return [
        f"_p{i} = _a{i} if type(_a{i}) is int else _a{i}.data_ptr()"
        if isinstance(signature.plan.arguments[i], PointerArgument)
        else f"_p{i} = _a{i}.data_ptr()"
        for i in _addressed(signature)
    ]


def _launch_lines(signature: Signature) -> list[str]:
    addressed = _addressed(signature)
    objects = "".join(f"_a{i}, " for i in addressed)
    pointers = "".join(f"_p{i}, " for i in addressed)
    values = "".join(f"{name}, " for name in signature.values)
    results = ", ".join(f"_a{i}" for i in signature.outputs)
    lines = []
    if addressed:
        nonzero = " and ".join(f"_p{i}" for i in addressed)
        lines += [f"if not ({nonzero}) and _skip(({objects}), ({values})):", f"    return {results}".rstrip()]
        lines += [f"if ({' | '.join(f'_p{i}' for i in addressed)}) & 15:", f"    _align(({pointers}))"]
    pitches = [f"({stride.text})" for m in signature.tensor_maps for stride in m.strides if not stride.constant]
    if pitches:
        lines += [f"if ({' | '.join(dict.fromkeys(pitches))}) & 15:", f"    _pitch(({values}))"]
    lines += ["_launch = _launchers.get(_dev) or _prepare(_dev)", f"_launch({objects}{pointers}{values})"]
    for i in signature.written:  # a backward that saved the tensor must fail rather than be wrong
        if isinstance(signature.plan.arguments[i], TensorArgument):
            lines += [f"if _grad() and not _a{i}.is_inference():", f"    _bump((_a{i},))"]
    return [*lines, f"return {results}".rstrip()]


def split(signature: Signature, flat: tuple[Any, ...]) -> tuple[Mapping[str, Any], Mapping[str, int], dict[str, Any]]:
    """A launcher's arguments taken apart: tensors by name, addresses by name, values by name."""
    names = [signature.plan.arguments[i].name for i in _addressed(signature)]
    count = len(names)
    objects = dict(zip(names, flat[:count], strict=True))
    pointers = dict(zip(names, flat[count : 2 * count], strict=True))
    return objects, pointers, dict(zip(signature.values, flat[2 * count :], strict=True))
