"""The launch plan of a lowered module: host statements walked in order, launches and tensor maps recorded.

TileLang's host function first checks and unpacks its arguments, then encodes tensor maps and launches kernels through
packed calls; workspaces become arguments that a call allocates. Everything else (conditions, loops) has no place in a
launch plan and is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm import arith, tirx

from tilewright.dsl import dtype_name

from .errors import UnsupportedHostCode
from .expression import Expression, safe_name
from .plan import (
    AS_READ,
    Argument,
    KernelLaunch,
    LaunchPlan,
    Parameter,
    PointerArgument,
    PointerParameter,
    ScalarArgument,
    ScalarParameter,
    TensorArgument,
    TensorMapParameter,
    VariableSource,
)
from .tir_expression import expression_of

# CUtensorMapDataType, CUDA driver API
TENSOR_MAP_DTYPES = (
    "uint8",
    "uint16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float32_ftz",
    "tfloat32",
    "tfloat32_ftz",
    "uint4_align8",
    "uint4_align16",
    "uint6_align16",
)
# element types of half a byte, by the torch type that holds two of them
_PAIRED = {"int4": "int8", "uint4": "uint8", "float4_e2m1fn": "float4_e2m1fn_x2"}
_SHAPE_FIELD, _STRIDES_FIELD = 2, 3  # tvm_struct_get: DLTensor.shape, DLTensor.strides
_CLUSTER_TAGS = ("tir.cluster_dim_x", "tir.cluster_dim_y", "tir.cluster_dim_z")
_DYNAMIC_TAG = "tirx.use_dyn_shared_memory"
_ONE = Expression("1")


@dataclass
class _Walk:
    """What has been seen of the host function so far; keys are TIR variables."""

    devices: Mapping[str, Any]
    names: dict[Any, str]
    pointers: dict[Any, str]
    fields: dict[Any, tuple[str, str]] = field(default_factory=dict)
    handles: dict[Any, str] = field(default_factory=dict)
    maps: dict[Any, TensorMapParameter] = field(default_factory=dict)
    sources: list[VariableSource] = field(default_factory=list)
    launches: list[KernelLaunch] = field(default_factory=list)
    workspaces: list[TensorArgument] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def extract_plan(func: Any, host_mod: Any, device_mod: Any, cuda: str, name: str) -> tuple[LaunchPlan, tuple[str, ...]]:
    """The launch plan of ``func`` lowered to ``host_mod`` and ``device_mod``, and remarks about what it leaves out.

    ``cuda`` is the device source; it tells which tensor maps are written through.

    Raises:
        UnsupportedHostCode: the host function does more than launch kernels in sequence.
    """
    hosts = [f for _, f in host_mod.functions.items() if isinstance(f, tirx.PrimFunc)]
    if len(hosts) != 1:
        raise UnsupportedHostCode(f"{name}: {len(hosts)} host functions in one program, a launch plan has one")
    devices = {str(f.attrs["global_symbol"]): f for _, f in device_mod.functions.items()}
    walk = _begin(func, devices)
    _statement(hosts[0].body, walk)
    written = _written(walk, cuda)
    signature = [
        replace(a, written=a.name in written) if isinstance(a, TensorArgument) else a for a in _signature(func, walk)
    ]
    arguments = (*signature, *walk.workspaces)
    walk.sources.extend(_unread_sources(signature, walk))
    variables = tuple(dict.fromkeys(source.variable for source in walk.sources))
    scalars = _scalar_sources(arguments, walk)
    plan = LaunchPlan(name, arguments, variables, tuple(walk.launches), (*walk.sources, *scalars))
    return plan, tuple(walk.remarks)


def argument_name(param: Any, buffers: Any) -> str:
    """The name under which the user's signature knows a parameter: TileLang appends ``_handle`` to tensors."""
    if param in buffers and str(param.name) == f"{buffers[param].name}_handle":
        return str(buffers[param].name)
    return str(param.name)


def _begin(func: Any, devices: Mapping[str, Any]) -> _Walk:
    walk = _Walk(devices, {}, {})
    taken: set[str] = set()
    for param in func.params:
        label = argument_name(param, func.buffer_map)
        if param in func.buffer_map:
            walk.pointers[func.buffer_map[param].data] = label
            walk.handles[param] = label
        elif str(param.dtype) == "handle":
            walk.pointers[param] = label
        else:
            _name(param, walk, taken)
    for param in func.params:
        if param in func.buffer_map:
            buffer = func.buffer_map[param]
            for extent in (*buffer.shape, *buffer.strides):
                if isinstance(extent, tirx.PrimExpr):
                    tirx.stmt_functor.post_order_visit(extent, lambda node: _visit(node, walk, taken))
    return walk


def _visit(node: Any, walk: _Walk, taken: set[str]) -> None:
    if isinstance(node, tirx.Var) and node not in walk.names:
        _name(node, walk, taken)


def _name(var: Any, walk: _Walk, taken: set[str]) -> None:
    base = safe_name(str(var.name))
    unique, number = base, 0
    while unique in taken:
        number += 1
        unique = f"{base}_{number}"
    taken.add(unique)
    walk.names[var] = unique


def _signature(func: Any, walk: _Walk) -> Sequence[Argument]:
    arguments: list[Argument] = []
    for param in func.params:
        label = argument_name(param, func.buffer_map)
        if param in func.buffer_map:
            arguments.append(_tensor(label, func.buffer_map[param], walk))
        elif param in walk.pointers:
            arguments.append(PointerArgument(label, _pointee(param)))
        else:
            arguments.append(ScalarArgument(label, str(param.dtype)))
    return arguments


def _tensor(label: str, buffer: Any, walk: _Walk) -> TensorArgument:
    shape = tuple(expression_of(extent, walk.names) for extent in buffer.shape)
    strides = tuple(expression_of(stride, walk.names) for stride in buffer.strides)
    dtype = dtype_name(buffer.dtype)
    if dtype in _PAIRED:
        dtype = _PAIRED[dtype]
        shape, strides = (*shape[:-1], _half(shape[-1])), (*map(_half, strides[:-1]), *strides[-1:])
    return TensorArgument(label, dtype, shape, None if _packed(buffer) else strides)


def _half(extent: Expression) -> Expression:
    if extent.constant:
        return Expression(str(extent.evaluate() // 2))
    return Expression(f"({extent.text}) // 2", extent.variables)


def _packed(buffer: Any) -> bool:
    """True when the strides are those of a row-major tensor without gaps."""
    if len(buffer.strides) == 0:
        return True
    analyzer = arith.Analyzer()
    expected: Any = tirx.IntImm("int64", 1)
    for extent, stride in zip(reversed(buffer.shape), reversed(buffer.strides), strict=True):
        if not analyzer.can_prove_equal(tirx.Cast("int64", stride), expected):
            return False
        expected = expected * tirx.Cast("int64", extent)
    return True


def _pointee(param: Any) -> str:
    annotation = getattr(param, "type_annotation", None)
    element = getattr(annotation, "element_type", None)
    return str(getattr(element, "dtype", "void")) or "void"


def _unread_sources(signature: Sequence[Argument], walk: _Walk) -> list[VariableSource]:
    """Where to read the variables of shapes that the host code reads nothing of, since no kernel uses the tensor."""
    dtypes = {name: str(var.dtype) for var, name in walk.names.items()}
    known = {source.variable for source in walk.sources} | {a.name for a in signature if isinstance(a, ScalarArgument)}
    found: dict[str, VariableSource] = {}
    for argument in signature:
        for axis, extent in enumerate(argument.shape if isinstance(argument, TensorArgument) else ()):
            name = extent.text
            if extent.variables == (name,) and name not in known:
                found.setdefault(name, VariableSource(name, argument.name, "shape", axis, dtype=dtypes[name]))
    return list(found.values())


def _scalar_sources(arguments: Sequence[Argument], walk: _Walk) -> Sequence[VariableSource]:
    by_label = {str(var.name): unique for var, unique in walk.names.items()}
    scalars = [a for a in arguments if isinstance(a, ScalarArgument)]
    return [VariableSource(by_label[a.name], a.name, "scalar", -1, dtype=a.dtype) for a in scalars]


def _statement(stmt: Any, walk: _Walk) -> None:
    handler = _STATEMENTS.get(type(stmt))
    if handler is None:
        raise UnsupportedHostCode(
            f"the host side contains {_HOST_WORDS.get(type(stmt).__name__, type(stmt).__name__)}; "
            "a launch plan holds kernel launches in sequence only",
            remedy="move it into the kernel, pass scratch memory as a parameter, or split the function into several",
        )
    handler(stmt, walk)


_HOST_WORDS = {
    "IfThenElse": "a condition around a launch",
    "For": "a loop around a launch",
    "While": "a loop around a launch",
}


def _sequence(stmt: Any, walk: _Walk) -> None:
    for item in stmt.seq:
        _statement(item, walk)


def _attribute(stmt: Any, walk: _Walk) -> None:
    _statement(stmt.body, walk)


def _nothing(stmt: Any, walk: _Walk) -> None:
    """Checks and declarations: the runtime makes its own from the signature."""


def _workspace(stmt: Any, walk: _Walk) -> None:
    buffer = stmt.buffer
    label = safe_name(str(buffer.name))
    while label in walk.pointers.values() or label in walk.names.values():
        label += "_"
    walk.pointers[buffer.data] = label
    walk.workspaces.append(replace(_tensor(label, buffer, walk), workspace=True))


def _bind(stmt: Any, walk: _Walk) -> None:
    var, value = stmt.var, stmt.value
    if var in walk.names:
        _variable_source(var, value, walk)
        return
    call = _struct_get(value)
    if call is not None and call.args[0] in walk.handles:
        kind = {_SHAPE_FIELD: "shape", _STRIDES_FIELD: "stride"}.get(int(call.args[2]))
        if kind is not None:
            walk.fields[var] = (walk.handles[call.args[0]], kind)


def _struct_get(value: Any) -> Any:
    if isinstance(value, tirx.Call) and _op(value) == "tirx.tvm_struct_get":
        return value
    return None


def _variable_source(var: Any, value: Any, walk: _Walk) -> None:
    loads: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferLoad) and node.buffer.data in walk.fields:
            loads.append(node)

    tirx.stmt_functor.post_order_visit(value, visit)
    if not loads:
        return
    argument, kind = walk.fields[loads[-1].buffer.data]
    axis = int(loads[-1].indices[0])
    place = tirx.Var("x", str(value.dtype))
    reader = expression_of(_replace_load(value, loads[-1], place), {place: "x"})
    walk.sources.append(VariableSource(walk.names[var], argument, kind, axis, _plain(reader), str(var.dtype)))


def _replace_load(value: Any, load: Any, place: Any) -> Any:
    """The value with the load replaced; casts between integer widths and tests for a null argument are dropped."""
    if isinstance(value, tirx.BufferLoad):
        return place
    if isinstance(value, tirx.Cast):
        return _replace_load(value.value, load, place)
    if isinstance(value, tirx.Call) and _op(value) == "tirx.if_then_else":
        branches = [branch for branch in value.args[1:] if _contains(branch, load)]
        return _replace_load(branches[-1], load, place)
    if isinstance(value, tirx.Select):
        branches = [branch for branch in (value.true_value, value.false_value) if _contains(branch, load)]
        return _replace_load(branches[-1], load, place)
    if hasattr(value, "a") and hasattr(value, "b"):
        return type(value)(_replace_load(value.a, load, place), _replace_load(value.b, load, place))
    return value


def _contains(value: Any, load: Any) -> bool:
    found: list[bool] = []
    tirx.stmt_functor.post_order_visit(value, lambda node: found.append(True) if node.same_as(load) else None)
    return bool(found)


def _plain(reader: Expression) -> Expression:
    return AS_READ if reader.text == "x" else reader


def _evaluate(stmt: Any, walk: _Walk) -> None:
    call = stmt.value
    if not isinstance(call, tirx.Call) or _op(call) != "tirx.tvm_call_packed":
        if isinstance(call, tirx.Call) and _op(call) != "tirx.ret":
            raise UnsupportedHostCode(f"the host side calls {_op(call)}; a launch plan holds kernel launches only")
        return
    callee = str(call.args[0].value)
    if callee == "__tvm_tensormap_create_tiled":
        _tensor_map(call.args[1:], walk)
    elif callee == "__tvm_tensormap_create_im2col":
        _im2col_map(call.args[1:], walk)
    elif callee in walk.devices:
        _launch(callee, list(call.args[1:]), walk)
    elif callee.startswith("__tvm_cuda_stream_"):
        walk.remarks.append("the L2 persistence hint of the kernel is not applied")
    elif callee != "__tvm_set_device":
        raise UnsupportedHostCode(
            f"the host side calls {callee}; a launch plan holds kernel launches and tensor maps only"
        )


def _tensor_map(args: Sequence[Any], walk: _Walk) -> None:
    desc, dtype, rank, pointer = args[0], int(args[1]), int(args[2]), args[3]
    rest = list(args[4:])
    dims, strides, box, steps = (
        tuple(expression_of(e, walk.names) for e in rest[i * rank : (i + 1) * rank]) for i in range(4)
    )
    interleave, swizzle, promotion, fill = (int(e) for e in rest[4 * rank : 4 * rank + 4])
    walk.maps[desc] = TensorMapParameter(
        str(desc.name),
        _pointer(pointer, walk),
        TENSOR_MAP_DTYPES[dtype],
        dims,
        strides[1:],
        box,
        steps,
        interleave,
        swizzle,
        promotion,
        fill,
    )


def _im2col_map(args: Sequence[Any], walk: _Walk) -> None:
    desc, dtype, rank, pointer = args[0], int(args[1]), int(args[2]), args[3]
    rest = list(args[4:])
    dims, strides, steps = (
        tuple(expression_of(e, walk.names) for e in rest[i * rank : (i + 1) * rank]) for i in range(3)
    )
    lower, upper, rest = rest[3 * rank : 4 * rank - 2], rest[4 * rank - 2 : 5 * rank - 4], rest[5 * rank - 4 :]
    pixels, channels = (expression_of(e, walk.names) for e in rest[:2])
    interleave, swizzle, promotion, fill = (int(e) for e in rest[2:6])
    walk.maps[desc] = TensorMapParameter(
        str(desc.name),
        _pointer(pointer, walk),
        TENSOR_MAP_DTYPES[dtype],
        dims,
        strides[1:],
        (channels, pixels),
        steps,
        interleave,
        swizzle,
        promotion,
        fill,
        lower_corner=tuple(int(e) for e in lower),
        upper_corner=tuple(int(e) for e in upper),
    )


def _pointer(value: Any, walk: _Walk) -> str:
    if value in walk.pointers:
        return walk.pointers[value]
    raise UnsupportedHostCode(
        f"the host side passes {value}, which is not the start of an argument",
        remedy="pass the buffer as a parameter of the kernel",
    )


def _launch(kernel: str, args: Sequence[Any], walk: _Walk) -> None:
    device = walk.devices[kernel]
    tags = [str(tag) for tag in device.attrs["tirx.kernel_launch_params"]]
    count = len(args) - len(tags)
    extents = dict(zip(tags, args[count:], strict=True))
    unknown = [
        t for t in tags if t not in (*_CLUSTER_TAGS, _DYNAMIC_TAG) and not t.startswith(("blockIdx.", "threadIdx."))
    ]
    if unknown:
        raise UnsupportedHostCode(f"{kernel}: launch parameters {', '.join(unknown)} are not known")

    def size(tag: str) -> Expression:
        return expression_of(extents[tag], walk.names) if tag in extents else _ONE

    attributes = dict(device.attrs.items())
    walk.launches.append(
        KernelLaunch(
            kernel,
            (size("blockIdx.x"), size("blockIdx.y"), size("blockIdx.z")),
            (size("threadIdx.x"), size("threadIdx.y"), size("threadIdx.z")),
            _cluster(extents),
            expression_of(extents[_DYNAMIC_TAG], walk.names) if _DYNAMIC_TAG in extents else Expression("0"),
            tuple(_parameter(var, value, walk) for var, value in zip(device.params, args[:count], strict=True)),
            cooperative=bool(attributes.get("use_cooperative_groups", 0)),
            programmatic=bool(attributes.get("has_cuda_pdl_sync", 0)),
        )
    )


def _cluster(extents: Mapping[str, Any]) -> tuple[int, int, int] | None:
    if _CLUSTER_TAGS[0] not in extents:
        return None
    x, y, z = (int(extents[tag]) for tag in _CLUSTER_TAGS)
    return (x, y, z) if x * y * z > 1 else None


def _parameter(var: Any, value: Any, walk: _Walk) -> Parameter:
    if isinstance(value, tirx.Var) and value in walk.maps:
        return walk.maps[value]
    if str(var.dtype) == "handle":
        return PointerParameter(_pointer(value, walk))
    return ScalarParameter(str(var.name), str(var.dtype), expression_of(value, walk.names))


def _written(walk: _Walk, cuda: str) -> set[str]:
    """Tensors that some kernel may write: pointers not read-only, tensor maps that occur outside a load."""
    names: set[str] = set()
    for launch in walk.launches:
        device = walk.devices[launch.kernel]
        readonly = {int(i) for i in dict(device.attrs.items()).get("tl.readonly_param_indices", ())}
        for index, parameter in enumerate(launch.parameters):
            if isinstance(parameter, ScalarParameter):
                continue
            stored = (
                _stored(parameter.name, cuda) if isinstance(parameter, TensorMapParameter) else index not in readonly
            )
            if stored:
                names.add(parameter.tensor)
    return names


def _stored(desc: str, cuda: str) -> bool:
    uses = [line for line in cuda.splitlines() if re.search(rf"\b{re.escape(desc)}\b", line)]
    return any("__grid_constant__" not in u and not re.search(r"tma_load|prefetch", u) for u in uses)


def _op(call: Any) -> str:
    return str(getattr(call.op, "name", call.op))


_STATEMENTS: Mapping[type, Callable[[Any, _Walk], None]] = {
    tirx.SeqStmt: _sequence,
    tirx.AttrStmt: _attribute,
    tirx.AssertStmt: _nothing,
    tirx.DeclBuffer: _nothing,
    tirx.AllocBuffer: _workspace,
    tirx.Bind: _bind,
    tirx.Evaluate: _evaluate,
}
