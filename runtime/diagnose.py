"""The slow path of a call: find the first wrong argument and say what it should have been."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tilewright.lowering import Expression, PointerArgument, ScalarArgument, TensorArgument

from .dtypes import SCALAR_CODES, short_name, torch_dtype
from .errors import ArgumentCountError, ArgumentError, GradientError
from .signature import Origin, Signature


def bind(signature: Signature, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    """The arguments in the order of the signature.

    Raises:
        ArgumentCountError: too many, too few, unknown or doubled arguments.
    """
    names, kernel = signature.names, signature.plan.name
    expected = f"{kernel}({', '.join(names)})"
    if len(args) > len(names):
        raise ArgumentCountError(
            f"{kernel} takes {len(names)} arguments, got {len(args)}",
            remedy=f"call {expected}{_outputs_note(signature)}",
        )
    given = dict(zip(names, args, strict=False))
    for name, value in keywords.items():
        if name not in names or name in given:
            problem = "was given twice" if name in given else "is not an argument"
            raise ArgumentCountError(
                f"{name} {problem} of {kernel}", remedy=f"call {expected}{_outputs_note(signature)}"
            )
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        raise ArgumentCountError(
            f"{kernel} takes {len(names)} arguments, got {len(given)}; missing {', '.join(missing)}",
            remedy=f"call {expected}{_outputs_note(signature)}",
        )
    return [given[name] for name in names]


def check(signature: Signature, args: Sequence[Any]) -> list[Any]:
    """Check every argument and return them with numbers converted to the types declared.

    Shapes may be symbolic (fake tensors): comparing them then adds guards.

    Raises:
        ArgumentError: the first argument that the kernel cannot take.
        GradientError: a tensor requires a gradient while gradients are recorded.
    """
    values = dict(zip(signature.inputs, args, strict=True))
    for position, value in values.items():
        values[position] = _check_kind(signature, position, value)
    _check_devices(signature, values)
    for position in signature.tensors:
        _check_tensor(signature, position, values[position])
    variables = signature.read(values)
    _check_size(signature, variables)
    for position in signature.tensors:
        _check_shape(signature, signature.tensor(position), values[position], variables)
    for position in signature.tensors:
        _check_gradient(signature, position, values[position])
    return list(values.values())


def _outputs_note(signature: Signature) -> str:
    outputs = [signature.plan.arguments[i].name for i in signature.outputs]
    return f"; {', '.join(outputs)} is allocated and returned" if outputs else ""


def _check_kind(signature: Signature, position: int, value: Any) -> Any:
    argument = signature.plan.arguments[position]
    if isinstance(argument, ScalarArgument):
        return _number(argument, value)
    if isinstance(value, torch.Tensor) or (isinstance(argument, PointerArgument) and type(value) is int):
        return value
    wanted = f"a {argument.dtype} tensor" + (
        f" of shape {_text(argument.shape)}" if isinstance(argument, TensorArgument) else " or an address"
    )
    seen = "None" if value is None else f"{_article(type(value).__name__)}"
    remedy = "pass a torch tensor"
    if type(value).__module__ == "numpy":
        remedy = f"pass torch.from_numpy({argument.name})"
    raise ArgumentError(f"{argument.name} is {seen}, {signature.plan.name} needs {wanted}", remedy=remedy)


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _number(argument: ScalarArgument, value: Any) -> Any:
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return value
    floating = argument.dtype.startswith(("float", "bfloat"))
    if isinstance(value, torch.Tensor) or value is None or isinstance(value, str):
        seen = "None" if value is None else _article(type(value).__name__)
        raise ArgumentError(
            f"{argument.name} is {seen}, the kernel needs a number of type {argument.dtype}",
            remedy="pass a Python number",
        )
    try:
        number = float(value) if floating else operator.index(value)
    except TypeError:
        raise ArgumentError(
            f"{argument.name} is {value!r} ({type(value).__name__}), "
            f"the kernel needs a number of type {argument.dtype}",
            remedy="pass a whole number" if not floating else "pass a number",
        ) from None
    if not floating and argument.dtype != "bool":
        _check_range(argument, int(number))
    return number


def _check_range(argument: ScalarArgument, number: int) -> None:
    low, high = integer_range(argument.dtype)
    if not low <= number <= high:
        raise ArgumentError(
            f"{argument.name} is {number}, outside the range of {argument.dtype}",
            values={"least": low, "greatest": high},
        )


def integer_range(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of an integer type, both included."""
    if dtype not in SCALAR_CODES or dtype == "bool":
        return (0, 1)
    bits = int("".join(c for c in dtype if c.isdigit()))
    return (0, (1 << bits) - 1) if dtype.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _check_devices(signature: Signature, values: Mapping[int, Any]) -> None:
    tensors = {signature.plan.arguments[i].name: v for i, v in values.items() if isinstance(v, torch.Tensor)}
    devices = {name: tensor.device for name, tensor in tensors.items()}
    wrong_device(signature.plan.name, devices)


def wrong_device(kernel: str, devices: Mapping[str, torch.device]) -> None:
    """Check that all tensors are on one CUDA device, or all on the CPU.

    Raises:
        ArgumentError: they are not.
    """
    on_cuda = [device for device in devices.values() if device.type == "cuda"]
    seen = {name: str(device) for name, device in devices.items()}
    for name, device in devices.items():
        if device.type not in ("cpu", "cuda"):
            raise ArgumentError(
                f"{name} is on {device.type}, {kernel} needs cuda, or cpu for the virtual GPU",
                values=seen,
                remedy="pass a cuda or cpu tensor",
            )
        if on_cuda and device.type == "cpu":
            raise ArgumentError(
                f"{name} is on cpu, {kernel} needs cuda",
                values=seen,
                remedy=f"pass {name}.to('{on_cuda[0]}'), or all on cpu",
            )
        if on_cuda and device != on_cuda[0]:
            raise ArgumentError(
                f"{name} is on {device}, the other tensors are on {on_cuda[0]}",
                values=seen,
                remedy=f"pass {name}.to('{on_cuda[0]}')",
            )


def _check_tensor(signature: Signature, position: int, value: torch.Tensor) -> None:
    argument = signature.tensor(position)
    name, kernel = argument.name, signature.plan.name
    if value.layout is not torch.strided:
        raise ArgumentError(
            f"{name} has the layout {value.layout}, {kernel} needs a dense tensor", remedy=f"pass {name}.to_dense()"
        )
    wanted = torch_dtype(argument.dtype, name)
    if value.dtype is not wanted:
        raise ArgumentError(
            f"{name} is {short_name(value.dtype)}, {kernel} needs {argument.dtype}",
            remedy=f"pass {name}.to(torch.{short_name(wanted)}), or compile the kernel for {short_name(value.dtype)}",
        )
    if value.dim() != len(argument.shape):
        raise ArgumentError(
            f"{name} has {value.dim()} dimension{'s' if value.dim() != 1 else ''}, "
            f"{kernel} needs {len(argument.shape)}: {_text(argument.shape)}",
            values={f"{name}.shape": tuple(value.shape)},
            remedy=f"reshape {name}",
        )


def _check_size(signature: Signature, variables: Mapping[str, Any]) -> None:
    for source in signature.plan.sources:
        name, most = source.variable, signature.greatest.get(source.variable)
        if most is not None and variables[name] > most:
            raise ArgumentError(
                f"{source.argument}: {source.kind}[{source.axis}] makes {name} more than {source.dtype} holds",
                values={name: variables[name], "greatest": most},
                remedy=f'declare {name} = T.dynamic("{name}", "int64") in the kernel',
            )


def _check_shape(
    signature: Signature, argument: TensorArgument, value: torch.Tensor, variables: Mapping[str, Any]
) -> None:
    for axis, extent in enumerate(argument.shape):
        wanted = extent.evaluate_in(variables)
        if value.shape[axis] != wanted:
            raise ArgumentError(
                f"{argument.name}: shape[{axis}] is {value.shape[axis]}, "
                f"must equal {_explain(signature, extent, wanted)}",
                values={f"{argument.name}.shape": tuple(value.shape), "needed": _text(argument.shape)},
                remedy="pass tensors whose sizes agree, or compile the kernel for these sizes",
            )
    _check_strides(argument, value, variables)


def _explain(signature: Signature, extent: Expression, wanted: Any) -> str:
    if extent.constant:
        return str(wanted)
    sources = [
        _origin_text(signature, signature.origins[name]) for name in extent.variables if name in signature.origins
    ]
    return f"{extent.text} = {wanted}" + (f" (from {', '.join(sources)})" if sources else "")


def _origin_text(signature: Signature, origin: Origin) -> str:
    name = signature.plan.arguments[origin.position].name
    return name if origin.kind == "scalar" else f"{name}.{origin.kind}[{origin.axis}]"


def _check_strides(argument: TensorArgument, value: torch.Tensor, variables: Mapping[str, Any]) -> None:
    if argument.strides is None:
        if value.is_contiguous():
            return
        wanted: tuple[Any, ...] = _contiguous(value.shape)
    else:
        wanted = tuple(stride.evaluate_in(variables) for stride in argument.strides)
        pairs = zip(value.shape, value.stride(), wanted, strict=True)
        if all(size == 1 or stride == needed for size, stride, needed in pairs):
            return
    name, expanded = argument.name, [i for i, s in enumerate(value.stride()) if s == 0 and value.shape[i] > 1]
    why = f"is expanded (stride 0 along dimension {expanded[0]})" if expanded else "has gaps or another order in memory"
    remedy = f"pass {name}.contiguous()"
    if argument.written:
        remedy = (
            f"pass a contiguous tensor for {name}, which the kernel writes, and copy it back with {name}.copy_(...)"
        )
    raise ArgumentError(
        f"{name} {why}: strides {tuple(value.stride())}, the kernel needs {wanted}",
        values={f"{name}.shape": tuple(value.shape)},
        remedy=remedy,
    )


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, stride = [], 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= size
    return tuple(reversed(strides))


def _check_gradient(signature: Signature, position: int, value: torch.Tensor) -> None:
    if value.requires_grad and torch.is_grad_enabled():
        name = signature.plan.arguments[position].name
        raise GradientError(
            f"{name} requires a gradient, and {signature.plan.name} has no backward",
            remedy=f"pass {name}.detach(), call under torch.no_grad(), or use register_operator(backward=...)",
        )


def check_alignment(signature: Signature, required: Mapping[str, int], pointers: Sequence[int]) -> None:
    """Check addresses against the alignment that each tensor needs.

    Raises:
        ArgumentError: an address is not a multiple of it.
    """
    addressed = [a for a in signature.plan.arguments if not isinstance(a, ScalarArgument)]
    for argument, pointer in zip(addressed, pointers, strict=True):
        need = required.get(argument.name, 1)
        if pointer % need:
            raise ArgumentError(
                f"{argument.name} starts at an address that is no multiple of {need} bytes",
                values={"address": hex(pointer), "off by": f"{pointer % need} bytes"},
                remedy=f"pass {argument.name}.clone(), whose memory starts aligned",
            )


def check_pitch(signature: Signature, variables: Mapping[str, Any]) -> None:
    """Check that the strides of tensor maps are multiples of 16 bytes and that no mapped tensor is empty.

    Raises:
        ArgumentError: a stride or size that the tensor memory accelerator does not take.
    """
    for tensor_map in signature.tensor_maps:
        sizes = [extent.evaluate_in(variables) for extent in tensor_map.dims]
        if 0 in sizes:
            raise ArgumentError(
                f"{tensor_map.tensor} is empty and {signature.plan.name} reads or writes it by TMA, "
                "which takes no empty tensor",
                values={"sizes, innermost first": tuple(sizes)},
                remedy="handle the empty case before the call",
            )
        for stride in tensor_map.strides:
            pitch = stride.evaluate_in(variables)
            if pitch % 16:
                raise ArgumentError(
                    f"{tensor_map.tensor}: a pitch of {pitch} bytes is no multiple of 16, as TMA needs",
                    remedy=f"pad the rows of {tensor_map.tensor}, or compile the kernel without TMA",
                )


def _text(extents: Sequence[Expression]) -> str:
    return f"({', '.join(e.text for e in extents)}{',' if len(extents) == 1 else ''})"


def empty_output(argument: TensorArgument, variables: Mapping[str, Any], device: torch.device) -> torch.Tensor:
    """An output of the shape that the variables give (symbolic sizes allowed)."""
    shape = [extent.evaluate_in(variables) for extent in argument.shape]
    dtype = torch_dtype(argument.dtype, argument.name)
    if argument.strides is None:
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.empty_strided(shape, [s.evaluate_in(variables) for s in argument.strides], dtype=dtype, device=device)
