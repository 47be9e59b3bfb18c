"""Copies between global and shared memory: which way they go, what encloses them, how the code moves a tensor."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.dsl import Entry, Loop, Operation, Program, Region

from .primitive import Lowered

_SHARED = ("shared", "shared.dyn")


@dataclass(frozen=True)
class Transfer:
    """One copy: its global side, its shared side, and whether it stores to global memory."""

    outside: Region
    inside: Region
    store: bool


def transfer(operation: Operation) -> Transfer | None:
    """How a copy goes between global and shared memory; None when it does not."""
    source, target = operation.regions
    if source.scope == "global" and target.scope in _SHARED:
        return Transfer(source, target, False)
    if target.scope == "global" and source.scope in _SHARED:
        return Transfer(target, source, True)
    return None


def enclosing_loops(program: Program, entry: Entry) -> tuple[Entry, ...]:
    """The loops around an entry, outermost first."""
    return tuple(loop for loop in program.outline().loops if loop is not entry and entry in loop.walk())


def is_pipelined(program: Program, entry: Entry) -> bool:
    """Whether a loop around an entry keeps several slots."""
    loops = (loop.detail for loop in enclosing_loops(program, entry))
    return any(isinstance(detail, Loop) and (detail.stages or 1) > 1 for detail in loops)


def global_tensor(copy: str, artifact: Lowered) -> str:
    """The global tensor of a copy's label (``copy A->A_s``), whichever side it is on."""
    sides = re.sub(r"^copy |#\d+$", "", copy).split("->")
    names = {argument.name for argument in artifact.plan.arguments}
    return next((side for side in sides if side in names), sides[0])


@dataclass(frozen=True)
class Traffic:
    """How often the CUDA text moves a tensor by each engine."""

    tma: int
    cp_async: int
    hints: tuple[str, ...]

    @property
    def engines(self) -> tuple[str, ...]:
        """The names of those that do."""
        return tuple(name for name in ("tma", "cp_async") if getattr(self, name)) or ("loads and stores of threads",)


def traffic(cuda: str, tensor: str) -> Traffic:
    """The copies of ``tensor`` in a CUDA text; ``hints`` are the cache policies of its tensor map accesses."""
    name = re.escape(tensor)
    maps = re.findall(rf"tl::tma_(?:load|store)\w*(<[^>(]*>)?\({name}_desc\w*,", cuda)
    asynchronous = re.findall(rf"tl::cp_async_gs\w*<\d+>\([^;]*?\b{name}\[", cuda)
    return Traffic(len(maps), len(asynchronous), tuple(re.findall(r"EVICT_\w+", " ".join(maps))))
