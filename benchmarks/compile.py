"""From a tile program to a cubin, and the cache hit, against ``tilelang.compile`` on the same PrimFunc.

Every measurement is a fresh process with everything imported. For ``cold`` it has caches with nothing in them, and has
compiled two other tiles before, as a developer's process has: libraries are loaded, headers precompiled or in the file
cache. ``hit`` finds the kernel in the caches that a ``cold`` process left, ``later hit`` does so after other hits,
``again`` compiles a function that the process has compiled before (with TileLang's log of every such hit turned off).
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .comparison import Benchmark, Row, child, interleaved

REPEATS = 3
AGAIN = 50  # hits in one process
TARGET = "sm_90a"
SIZE = (1024, 1024, 1024)
TILE = (128, 128, 64)
OTHER_TILES = ((64, 64, 32), (128, 64, 64))
SIDES = ("tilewright", "tilelang")
# phase -> what it is called, the ratio aimed at, and the most milliseconds allowed
PHASES: dict[str, tuple[str, float | None, float | None]] = {
    "cold": ("source to cubin, warm process", 3.0, None),
    "again": ("cache hit in the process", 7.0, None),
    "hit": ("first cache hit on disk of a process", None, 10.0),
    "later hit": ("later cache hit on disk", None, 10.0),
}


def compiler(side: str) -> Callable[[Any], object]:
    """The function that takes a PrimFunc to a callable kernel, for ``tilewright`` or ``tilelang``."""
    if side == "tilewright":
        import tilewright

        compile_ = tilewright.compile
        return lambda func: compile_(func, target=TARGET, out_idx=-1)
    import tilelang

    logging.getLogger("tilelang").setLevel(logging.ERROR)
    return lambda func: tilelang.compile(func, target={"kind": "cuda", "arch": TARGET}, out_idx=-1)


def one_side(side: str, phase: str) -> float:
    """Seconds for the measured kernel, in this process."""
    from .kernels import gemm

    compile_ = compiler(side)
    if phase != "hit":
        for tile in OTHER_TILES:
            compile_(gemm(*SIZE, tile))
    func = gemm(*SIZE, TILE)
    took = []
    for _ in range(AGAIN + 1 if phase == "again" else 1):
        start = time.perf_counter()
        compile_(func)
        took.append(time.perf_counter() - start)
    return statistics.median(took[1:] or took)


def seconds(side: str, phase: str, caches: Path) -> float:
    """The same in a fresh process; a cold one gets caches that nothing is in yet, a hit those of the last cold one."""
    folder = caches / side
    if phase == "cold":
        new = Path(tempfile.mkdtemp(prefix=side, dir=caches))
        folder.unlink(missing_ok=True)
        folder.symlink_to(new)
    variables = {
        "TILEWRIGHT_CACHE_DIR": str(folder),
        "TILEWRIGHT_CACHE": "1",
        "TILELANG_CACHE_DIR": str(folder),
        "TILELANG_TMP_DIR": str(folder / "tmp"),
    }
    code = f"from {__name__} import one_side; print(one_side({side!r}, {phase!r}))"
    return float(child(["-c", code], variables))


def measure() -> tuple[Row, ...]:
    """A row a phase."""
    kernel = f"gemm {'x'.join(map(str, TILE))} f16 {TARGET}"
    rows = []
    with tempfile.TemporaryDirectory() as caches:
        for phase, (what, goal, limit) in PHASES.items():
            sides = {s: (lambda s=s, phase=phase: seconds(s, phase, Path(caches)) * 1e3) for s in SIDES}
            found = interleaved(REPEATS, sides)
            ours, peer = found["tilewright"], found["tilelang"]
            rows.append(Row(f"{kernel}: {what}", ours, peer, "tilelang.compile", "ms", goal, limit))
    return tuple(rows)


BENCHMARK = Benchmark("compile", "how long from a tile program to a cubin, and on a cache hit?", measure)
