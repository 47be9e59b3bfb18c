"""What a launch found and counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import KernelFault
from .hot import HotLine
from .ptx import SourceLine

KINDS = (
    "out-of-bounds",
    "misaligned",
    "uninitialized-shared",
    "uninitialized-register",
    "deadlock",
    "barrier",
    "mbarrier",
    "unfinished-work",
    "proxy-fence",
    "illegal",
    "assertion",
    "runaway",
    "race",
)


def _where(device: int, block: tuple[int, int, int], named: bool) -> str:
    return f"device {device} block {block}" if named else f"block {block}"


def _places(ptx_line: int, ptx: str, cuda_line: int, sources: tuple[SourceLine, ...]) -> list[str]:
    """The lines of a report that say where an instruction comes from, the nearest to the user first."""
    out = []
    if sources:
        out.append(f"source {sources[-1]}" + (f" (in {sources[0]})" if len(sources) > 1 else ""))
    if cuda_line:
        out.append(f"CUDA line {cuda_line}")
    if ptx_line:
        out.append(f"PTX line {ptx_line}: {ptx if len(ptx) <= _PTX_WIDTH else ptx[: _PTX_WIDTH - 4] + ' ...'}")
    return out


_PTX_WIDTH = 100


@dataclass(frozen=True)
class Site:
    """The other access of a race: fields as in :class:`Finding`."""

    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    warp: int
    lane: int
    ptx_line: int
    ptx: str
    sources: tuple[SourceLine, ...]
    device: int = 0
    kernel: str = ""
    cuda_line: int = 0

    @property
    def source(self) -> SourceLine | None:
        """The line of the outermost caller: the user's own line."""
        return self.sources[-1] if self.sources else None

    def to_dict(self) -> dict[str, object]:
        """As plain JSON values."""
        return {
            "kernel": self.kernel,
            "device": self.device,
            "block": list(self.block),
            "thread": list(self.thread),
            "warp": self.warp,
            "lane": self.lane,
            "ptx_line": self.ptx_line,
            "ptx": self.ptx,
            "cuda_line": self.cuda_line,
            "sources": [{"file": s.file, "line": s.line} for s in self.sources],
        }

    def text(self, *, named: bool) -> str:
        """The report of this side, with its device when ``named``."""
        lines = [f"{_where(self.device, self.block, named)} thread {self.thread} (warp {self.warp}, lane {self.lane})"]
        lines += _places(self.ptx_line, self.ptx, self.cuda_line, self.sources)
        return "\n    ".join(lines)

    def __str__(self) -> str:
        return self.text(named=self.device > 0)


@dataclass(frozen=True)
class Finding:
    """One fault of a kernel, at its first occurrence.

    ``kind`` is one of ``KINDS``; ``warp`` and ``lane`` are -1 and ``thread`` None when no thread is meant; ``ptx_line``
    is 0 when no instruction is meant, ``cuda_line`` when the generated CUDA is not known; ``sources`` are the source
    line and its inlining callers, outermost last; ``count`` is how often the instruction was at fault; ``other`` is the
    earlier access of a race (or the write that a proxy fence is missing for, or another block that waits in a
    deadlock).
    """

    kind: str
    message: str
    kernel: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int] | None
    warp: int
    lane: int
    ptx_line: int
    ptx: str
    sources: tuple[SourceLine, ...]
    count: int
    other: Site | None = None
    device: int = 0
    cuda_line: int = 0

    @property
    def source(self) -> SourceLine | None:
        """The line of the outermost caller: the user's own line."""
        return self.sources[-1] if self.sources else None

    def to_dict(self) -> dict[str, object]:
        """As plain JSON values."""
        return {
            "kind": self.kind,
            "message": self.message,
            "kernel": self.kernel,
            "device": self.device,
            "block": list(self.block),
            "thread": list(self.thread) if self.thread else None,
            "warp": self.warp,
            "lane": self.lane,
            "ptx_line": self.ptx_line,
            "ptx": self.ptx,
            "cuda_line": self.cuda_line,
            "sources": [{"file": s.file, "line": s.line} for s in self.sources],
            "count": self.count,
            "other": self.other.to_dict() if self.other else None,
        }

    def __str__(self) -> str:
        named = self.device > 0 or (self.other is not None and self.other.device > 0)
        where = _where(self.device, self.block, named)
        if self.thread:
            where += f" thread {self.thread} (warp {self.warp}, lane {self.lane})"
        lines = [f"{self.kind}: {self.message}", f"  kernel {self.kernel}, {where}"]
        lines += [f"  {line}" for line in _places(self.ptx_line, self.ptx, self.cuda_line, self.sources)]
        if self.other:
            what = "see also" if self.kind == "deadlock" else "other access"
            kernel = "" if self.other.kernel in ("", self.kernel) else f"kernel {self.other.kernel}, "
            lines.append(f"  {what}: {kernel}{self.other.text(named=named)}")
        if self.count > 1:
            lines.append(f"  {self.count} times")
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """The findings of a launch, its counters, and what the kernel printed.

    ``counts`` always has ``instructions`` (warp instructions); the counting checks of :func:`launch` add
    ``instructions.<class>``, ``flops.<unit>``, ``shared.bytes``, ``global.bytes``, ``l2.bytes`` (32 for each sector),
    ``shared.wavefronts``, ``shared.conflicts``, ``global.requests`` and ``global.sectors``. ``hot`` has the same by PTX
    line, the line that ran most often first.
    """

    kernel: str
    mode: str
    findings: tuple[Finding, ...]
    counts: dict[str, int] = field(default_factory=dict)
    output: str = ""
    hot: tuple[HotLine, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def to_dict(self) -> dict[str, object]:
        """As plain JSON values."""
        return {
            "kernel": self.kernel,
            "mode": self.mode,
            "ok": self.ok,
            "findings": [f.to_dict() for f in self.findings],
            "counts": dict(self.counts),
            "output": self.output,
            "hot": [h.to_dict() for h in self.hot],
        }

    def __str__(self) -> str:
        if self.ok:
            return f"{self.kernel} ({self.mode}): no findings"
        head = f"{self.kernel} ({self.mode}): {len(self.findings)} finding{'s' if len(self.findings) > 1 else ''}"
        return "\n".join([head, *map(str, self.findings)])

    def raise_for_findings(self) -> None:
        """Raises when there are findings.

        Raises:
            KernelFault: names the first finding and how many there are.
        """
        if not self.findings:
            return
        first = self.findings[0]
        values: dict[str, object] = {"block": first.block}
        if first.thread:
            values["thread"] = first.thread
        if first.ptx_line:
            values["PTX line"] = first.ptx_line
            values["instruction"] = first.ptx
        if first.source:
            values["source"] = first.source
        if first.other:
            values["other access"] = first.other
        more = f" (and {len(self.findings) - 1} more findings)" if len(self.findings) > 1 else ""
        raise KernelFault(f"kernel {self.kernel}: {first.kind}: {first.message}{more}", values=values)
