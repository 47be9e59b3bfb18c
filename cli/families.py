"""Which kinds of instructions a PTX text holds: what a schedule or target was meant to bring about."""

from __future__ import annotations

import re

# family -> how its opcodes begin; a count is of instructions in the text, not of executions
FAMILIES = {
    "tma_load": r"cp\.async\.bulk(\.tensor\S*)?\.shared::(cluster|cta)\.global",
    "tma_store": r"cp\.async\.bulk(\.tensor\S*)?\.global\.shared::cta",
    "tma_reduce": r"cp\.reduce\.async\.bulk",
    "wgmma": r"wgmma\.mma_async",
    "mma": r"mma\.sync",
    "cp_async": r"cp\.async\.c[ag]\.",
    "ldmatrix": r"ldmatrix",
    "stmatrix": r"stmatrix",
    "mbarrier": r"mbarrier",
    "barrier": r"(bar|barrier)\.",
    "atomic": r"(atom|red)\.",
    "shuffle": r"shfl",
    "global_load_16": r"ld\.global\S*\.v(4\.[bfsu]32|2\.[bfsu]64)",
    "global_store_16": r"st\.global\S*\.v(4\.[bfsu]32|2\.[bfsu]64)",
    "global_load": r"ld\.global",
    "global_store": r"st\.global",
}
_OPCODE = re.compile(r"^\s*(?:\{\s*)?(?:@!?%?\w+\s+)?([a-z][\w.:]*)", re.M)


def families_of(ptx: str) -> dict[str, int]:
    """How many instructions of each family the text holds; families it has none of are left out."""
    opcodes = _OPCODE.findall(ptx)
    counts = {name: sum(1 for opcode in opcodes if re.match(begin, opcode)) for name, begin in FAMILIES.items()}
    return {name: count for name, count in counts.items() if count}
