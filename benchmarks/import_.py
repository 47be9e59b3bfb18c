"""How long ``import tilewright`` takes against ``import tilelang``, each in a fresh process."""

from __future__ import annotations

from .comparison import Benchmark, Row, child, interleaved

REPEATS = 5


def seconds(module: str) -> float:
    """Wall time of importing ``module`` in a process that has imported nothing else."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return float(child(["-c", code]))


def measure() -> tuple[Row, ...]:
    """One row; the first pair fills the file cache and is not counted."""
    sides = {module: (lambda module=module: seconds(module)) for module in ("tilewright", "tilelang")}
    interleaved(1, sides)
    found = interleaved(REPEATS, sides)
    return (Row("import", found["tilewright"] * 1e3, found["tilelang"] * 1e3, "import tilelang", "ms", goal=10),)


BENCHMARK = Benchmark("import", "what does `import tilewright` cost?", measure)
