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
) -> Program: ...
def launch(
    program: Program,
    entry: int,
    grid: Sequence[int],
    block: Sequence[int],
    cluster: Sequence[int],
    params: bytes,
    static_shared: int,
    dynamic_shared: int,
    local: int,
    ranges: Sequence[tuple[int, int, str, bool]],
    mode: int,
    seed: int,
    budget: int,
    threads: int,
    watch: int,
) -> tuple[list[tuple[Any, ...]], int, bytes, bool, list[tuple[int, int, int, int, int, int, int, int, int, int]]]: ...
