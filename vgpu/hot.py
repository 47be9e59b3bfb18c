"""Counters by PTX line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from .ptx import SourceLine
from .ptx.traits import class_of, flops_of

SECTOR_BYTES = 32
_Row = tuple[int, int, int, int, int, int, int, int, int, int]


@dataclass(frozen=True)
class HotLine:
    """What the instructions of one PTX line did in a launch.

    ``runs`` counts warps and ``lanes`` their active threads. ``wavefronts`` are passes over the banks of shared memory,
    ``conflicts`` those beyond one for each 128 bytes' worth of lanes (32 lanes of up to 4 bytes, 16 of 8, 8 of 16);
    ``requests`` are accesses of warps to global memory and ``sectors`` the 32-byte pieces they touched.
    """

    ptx_line: int
    ptx: str
    sources: tuple[SourceLine, ...]
    instruction_class: str
    runs: int
    lanes: int
    flops: int
    shared_bytes: int
    global_bytes: int
    wavefronts: int
    conflicts: int
    requests: int
    sectors: int

    @property
    def source(self) -> SourceLine | None:
        """The line of the outermost caller: the user's own line."""
        return self.sources[-1] if self.sources else None

    def to_dict(self) -> dict[str, object]:
        """As plain JSON values."""
        return {**asdict(self), "sources": [{"file": s.file, "line": s.line} for s in self.sources]}


def totals(rows: Sequence[_Row], checks: frozenset[str]) -> dict[str, int]:
    """The counters of a launch that ``checks`` asked for."""
    out: dict[str, int] = {}
    if "traffic" in checks:
        for _, traits, runs, lanes, *_rest in rows:
            name = f"instructions.{class_of(traits)}"
            out[name] = out.get(name, 0) + runs
            unit, flops = flops_of(traits, runs, lanes)
            if flops:
                out[f"flops.{unit}"] = out.get(f"flops.{unit}", 0) + flops
        out["shared.bytes"] = sum(r[4] for r in rows)
        out["global.bytes"] = sum(r[5] for r in rows)
    if "banks" in checks:
        out["shared.wavefronts"] = sum(r[6] for r in rows)
        out["shared.conflicts"] = sum(r[6] - r[7] for r in rows)
    if "sectors" in checks:
        out["global.requests"] = sum(r[8] for r in rows)
        out["global.sectors"] = sum(r[9] for r in rows)
        out["l2.bytes"] = SECTOR_BYTES * out["global.sectors"]
    return out


def hot_lines(
    rows: Sequence[_Row], text: Sequence[str], sources: Mapping[int, tuple[SourceLine, ...]]
) -> tuple[HotLine, ...]:
    """One entry a PTX line that ran; a line with several instructions has the class of the first."""
    merged: dict[int, list[int]] = {}
    classes: dict[int, str] = {}
    for line, traits, runs, lanes, *counts in rows:
        entry = merged.setdefault(line, [0] * 9)
        classes.setdefault(line, class_of(traits))
        for k, value in enumerate((runs, lanes, flops_of(traits, runs, lanes)[1], *counts)):
            entry[k] += value
    out = []
    for line, (runs, lanes, flops, shared, global_, wavefronts, phases, requests, sectors) in merged.items():
        ptx = " ".join(text[line - 1].split())
        conflicts = wavefronts - phases
        out.append(
            HotLine(
                line, ptx, sources[line], classes[line], runs, lanes, flops, shared, global_, wavefronts, conflicts,
                requests, sectors,
            )
        )  # fmt: skip
    return tuple(sorted(out, key=lambda h: (-h.runs, h.ptx_line)))
