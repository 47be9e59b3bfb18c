"""How far each pointer of a kernel must be aligned, read off the PTX: the widest access made through it."""

from __future__ import annotations

import re

from tilewright.lowering import Artifact, KernelLaunch, PointerParameter, TensorMapParameter

TENSOR_MAP_ALIGNMENT = 16  # CUDA driver API, cuTensorMapEncodeTiled: globalAddress without interleave

_ENTRY = r"\.entry\s+{name}\s*\((.*?)\)(.*?)(?=\.entry\s|\.func\s|\Z)"
_PARAMETER = re.compile(r"\.param\s+[^,]*?(\w+)(?:\[\d+\])?\s*(?:,|$)", re.S)
_STATEMENT = re.compile(r"^[\s{}]*(?:@!?%\w+\s+)?([a-z][\w.:]*)\s+(.*?);", re.M)
_REGISTER = re.compile(r"%rd\d+")
_ADDRESS = re.compile(r"\[(%rd\d+)")
_WIDTH = re.compile(r"\.(?:b|u|s|f)(\d+)$")


def required_alignment(artifact: Artifact) -> dict[str, int]:
    """Bytes to which each tensor's address must be aligned, by the tensor's name; absent names need none."""
    found: dict[str, int] = {}
    for launch in artifact.plan.launches:
        widths = pointer_alignment(artifact.ptx, launch.kernel)
        for index, parameter in enumerate(launch.parameters):
            if isinstance(parameter, TensorMapParameter):
                found[parameter.tensor] = max(found.get(parameter.tensor, 1), TENSOR_MAP_ALIGNMENT)
            elif isinstance(parameter, PointerParameter):
                found[parameter.tensor] = max(found.get(parameter.tensor, 1), _width_at(widths, launch, index))
    return found


def _width_at(widths: tuple[int, ...], launch: KernelLaunch, index: int) -> int:
    return widths[index] if len(widths) == len(launch.parameters) else TENSOR_MAP_ALIGNMENT


def pointer_alignment(ptx: str, kernel: str) -> tuple[int, ...]:
    """The widest global access, in bytes, through an address computed from each parameter of ``kernel`` (1: none).

    Addresses live in 64-bit registers; an access counts for every parameter that its register can derive from.
    Empty when the kernel is not in the text.
    """
    entry = re.search(_ENTRY.format(name=re.escape(kernel)), ptx, re.S)
    if entry is None:
        return ()
    parameters = {name: index for index, name in enumerate(_PARAMETER.findall(entry[1]))}
    statements = [
        (opcode, operands) for opcode, operands in _STATEMENT.findall(entry[2].replace(";", ";\n")) if "%rd" in operands
    ]
    sources = _derivations(statements, parameters)
    widths = [1] * len(parameters)
    for opcode, operands in statements:
        address = _ADDRESS.search(operands)
        if address is None or not _is_global_access(opcode, operands):
            continue
        for index in sources.get(address[1], ()):
            widths[index] = max(widths[index], _access_bytes(opcode, operands))
    return tuple(widths)


def _derivations(statements: list[tuple[str, str]], parameters: dict[str, int]) -> dict[str, frozenset[int]]:
    sources: dict[str, frozenset[int]] = {}
    changed = True
    while changed:
        changed = False
        for opcode, operands in statements:
            names = _REGISTER.findall(operands)
            if opcode.startswith("ld.param"):
                loaded = re.search(r"\[(\w+)", operands)
                origin = frozenset({parameters[loaded[1]]}) if loaded and loaded[1] in parameters else frozenset()
            elif "[" in operands or not names or not operands.startswith(names[0]):
                continue
            else:
                origin = frozenset().union(*(sources.get(name, frozenset()) for name in names[1:]))
            if names and not origin <= sources.get(names[0], frozenset()):
                sources[names[0]] = sources.get(names[0], frozenset()) | origin
                changed = True
    return sources


def _is_global_access(opcode: str, operands: str) -> bool:
    return ".global" in opcode or (opcode.startswith("cp.async") and "[" in operands)


def _access_bytes(opcode: str, operands: str) -> int:
    if opcode.startswith("cp.async"):
        sizes = re.findall(r",\s*(\d+)", operands)
        return int(sizes[0]) if sizes else TENSOR_MAP_ALIGNMENT
    width = _WIDTH.search(opcode)
    lanes = 8 if ".v8" in opcode else 4 if ".v4" in opcode else 2 if ".v2" in opcode else 1
    return (int(width[1]) // 8 if width else 1) * lanes
