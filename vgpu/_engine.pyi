from collections.abc import Sequence
from typing import Any

class Program:
    @property
    def instructions(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def may_read_undefined(self) -> bool: ...

def handlers() -> dict[str, int]: ...
def specials() -> dict[str, int]: ...
def make_program(
    code: memoryview | Sequence[int],
    widths: bytes,
    pred_count: int,
    constants: Sequence[tuple[int, bool, int, int]],
    variables: Sequence[tuple[str, int, int, bytes, list[tuple[int, int, int]]]],
    functions: Sequence[tuple[int, int, int, int, int, list[tuple[int, int]], bool]],
) -> Program: ...
def launch(
    requests: Sequence[tuple[Any, ...]], mode: int, seed: int, budget: int, threads: int, watch: int
) -> tuple[list[tuple[Any, ...]], int, bytes, list[list[tuple[Any, ...]]]]:
    """Runs grids at once: findings, warp instructions, printed text, counters of each grid by instruction.

    A request is (program, entry, grid, block, cluster, params, static_shared, dynamic_shared, local, ranges, device,
    processors).
    """
