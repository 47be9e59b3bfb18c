"""The handles of a program that is one matrix product, read from its outline; what the recipes for gemm start from."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dsl import GEMMS, Entry, Operation, Program, gemm_of

from ..errors import UnknownHandle


@dataclass(frozen=True)
class Product:
    """The names of a product's parts: the operation, its loop, the loads of A and B, the store of the result.

    ``store`` is empty where the result leaves its accumulator by more than one copy; ``tiles`` are those of A and B.
    """

    gemm: str
    loop: str
    loads: tuple[str, str]
    tiles: tuple[str, str]
    accumulator: str
    store: str
    output: str


def product_of(program: Program) -> Product:
    """The product that a program computes.

    Raises:
        UnknownHandle: it has no product, several, or one outside a loop that loads both operands.
    """
    found = [entry for entry in program.outline().ops if _is_gemm(entry)]
    if len(found) != 1:
        raise UnknownHandle(
            f"{program.name} has {len(found)} matrix products, this recipe is for one",
            span=found[1].span if found else None,
            remedy="schedule it step by step",
        )
    entry = found[0]
    assert isinstance(entry.detail, Operation)
    gemm = gemm_of(entry.detail)
    loops = [loop for loop in program.outline().loops if entry in loop.children]
    loads = {_filled(child): child.label for child in (loops[0].children if loops else ())}
    if gemm.a.name not in loads or gemm.b.name not in loads:
        raise UnknownHandle(
            f"{entry.label} of {program.name} is in no loop that loads both of its operands",
            span=entry.span,
            remedy="schedule it step by step",
        )
    stores = [other for other in program.outline().ops if _stores(other, gemm.c.name)]
    return Product(
        gemm=entry.label,
        loop=loops[0].label,
        loads=(loads[gemm.a.name], loads[gemm.b.name]),
        tiles=(gemm.a.name, gemm.b.name),
        accumulator=gemm.c.name,
        store=stores[0].label if len(stores) == 1 else "",
        output=_target(stores[0]) if len(stores) == 1 else "",
    )


def _is_gemm(entry: Entry) -> bool:
    return isinstance(entry.detail, Operation) and entry.detail.name in GEMMS


def _filled(entry: Entry) -> str:
    operation = entry.detail
    is_load = isinstance(operation, Operation) and operation.name == "copy" and operation.regions[0].scope == "global"
    return operation.regions[1].name if is_load and isinstance(operation, Operation) else ""


def _stores(entry: Entry, name: str) -> bool:
    operation = entry.detail
    if not isinstance(operation, Operation) or operation.name != "copy":
        return False
    return operation.regions[0].name == name and operation.regions[1].scope == "global"


def _target(entry: Entry) -> str:
    assert isinstance(entry.detail, Operation)
    return entry.detail.regions[1].name
