"""One trial: a kernel compiled, run and compared; what ``tilewright run`` and the demo report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .compare import Comparison

if TYPE_CHECKING:
    from tilewright.dsl import Program, Target
    from tilewright.runtime import CheckReport, Kernel
    from tilewright.schedules import Schedule


@dataclass(frozen=True)
class Choice:
    """What is chosen beside the subject's own settings."""

    target: Target
    schedule: Schedule | None


@dataclass(frozen=True)
class Trial:
    """What was compiled, on which device it ran, and how near its outputs come to the exact ones.

    ``comparison`` is None when there is nothing to compare with. Times are milliseconds of wall time, the run's with
    loading the kernel; ``instructions`` counts executed warp instructions (None on a GPU), ``findings`` holds what the
    virtual GPU found.
    """

    subject: str
    kernel: Kernel
    device: str
    tensors: Mapping[str, str]
    comparison: Comparison | None
    compile_ms: float
    cached: bool
    run_ms: float
    instructions: int | None
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the outputs are within the tolerance and nothing was found."""
        return not self.findings and (self.comparison is None or self.comparison.within)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the device kernels, in the order of their launches."""
        return tuple(launch.kernel for launch in self.kernel.plan.launches)

    def to_dict(self) -> dict[str, Any]:
        """The trial for JSON."""
        found = self.comparison
        return {
            "subject": self.subject,
            "kernels": list(self.kernels),
            "target": self.kernel.target.name,
            "device": self.device,
            "tensors": dict(self.tensors),
            "reference": found is not None,
            "error": found and found.error,
            "torch_error": found and found.torch_error,
            "tolerance": found and found.tolerance,
            "largest": found and found.largest,
            "within": found and found.within,
            "compile_ms": self.compile_ms,
            "cached": self.cached,
            "run_ms": self.run_ms,
            "instructions": self.instructions,
            "findings": list(self.findings),
            "passed": self.passed,
        }


@dataclass(frozen=True)
class Subject:
    """What a command works on.

    Attributes:
        name: as given on the command line.
        program: the program for some settings, and the choice with the schedule that applies to it.
        trial: compiles, runs and compares for some settings.
        check: runs in all scheduling modes of the virtual GPU, with race detection, against the reference; on a number
            of devices if given.
    """

    name: str
    program: Callable[[Mapping[str, object], Choice], tuple[Program, Choice]]
    trial: Callable[[Mapping[str, object], Choice], Trial]
    check: Callable[[Mapping[str, object], Choice, int | None], CheckReport]


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a call and its wall time in milliseconds."""
    start = time.perf_counter()
    result = call()
    return result, (time.perf_counter() - start) * 1e3


def finished(call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """The result of a call once the GPU, if there is one, has done its work."""
    import torch

    result = call(*args, **keywords)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result


def text_of(tensor: Any) -> str:
    """``float16 (64, 128)``."""
    return f"{str(tensor.dtype).removeprefix('torch.')} ({', '.join(map(str, tensor.shape))})"


def instructions_of(reports: Sequence[Any]) -> int:
    """Executed warp instructions over several launches."""
    return sum(int(report.counts["instructions"]) for report in reports)


def wrong(found: Comparison) -> tuple[str, ...]:
    """What is to be said of a result: nothing when it is within the tolerance."""
    if found.within:
        return ()
    return (f"off by {found.error:.3g} from the reference, more than {found.tolerance:.3g}",)


def findings_of(reports: Sequence[Any]) -> tuple[str, ...]:
    """The text of every finding over several launches."""
    return tuple(str(finding) for report in reports for finding in report.findings)
