"""Which check of the default recipe finds a mutant: all modes in turn, with race detection, against the reference."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from mutations import Mutant, mutants_of
from subjects import SUBJECTS, Subject

from tilewright import vgpu
from tilewright.errors import TilewrightError
from tilewright.runtime import Kernel, check

BUDGET = 300_000  # warp instructions of a block; the kernels run at most a tenth of it
_ROUNDINGS = 16  # of the output's type, relative to the largest value


@dataclass(frozen=True)
class Verdict:
    """How a mutant was found: the mode and the kinds of findings or ``result``; no mode when it was not."""

    mutant: Mutant
    mode: str
    by: str
    text: str

    @property
    def found(self) -> bool:
        """Whether some check found it."""
        return bool(self.mode)


class Prey:
    """A subject with its kernel compiled and its expected results computed."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.kernel: Kernel = subject.kernel()
        self.arguments = subject.arguments()
        self.expected = subject.expected(*(a.clone() for a in self.arguments))

    @property
    def name(self) -> str:
        """Kernel and target."""
        return f"{self.subject.name} {self.subject.target}"

    def mutants(self) -> list[Mutant]:
        """Every mutant of the kernel."""
        return list(mutants_of(self.name, self.kernel.ptx))

    def wrong(self, _: Any, *arguments: torch.Tensor) -> Iterator[str]:
        """What is wrong with the arguments as a run left them."""
        for position, expected in self.expected.items():
            own = arguments[position]
            error = (own.double() - expected.double()).abs().nan_to_num(torch.inf).max().item()
            eps = torch.finfo(own.dtype).eps if own.is_floating_point() else 0.0
            if error > _ROUNDINGS * eps * max(1.0, expected.double().abs().max().item()):
                yield f"argument {position} is off by {error:.3g}"

    def check(self, text: str, modes: tuple[str, ...]) -> Any:
        """The report of ``tilewright check`` on the kernel with another PTX text."""
        return check(self.kernel.with_ptx(text), *self.arguments, modes=modes, budget=BUDGET, verify=self.wrong)

    def hunt(self, mutant: Mutant) -> Verdict:
        """Runs a mutant mode by mode until something is found; then all modes against each other."""
        for modes in (*((mode,) for mode in vgpu.MODES), tuple(vgpu.MODES)):
            try:
                report = self.check(mutant.text, modes)
            except TilewrightError as error:
                return Verdict(mutant, modes[0], "refused", str(error))
            if not report.ok:
                kinds = sorted({f.kind for f in report.findings}) or ["result"]
                return Verdict(mutant, modes[0] if len(modes) == 1 else "modes", "+".join(kinds), str(report))
        return Verdict(mutant, "", "", "")


def main() -> int:
    """Hunts the mutants whose names contain all the given words, and lists those that are not found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("words", nargs="*", help="parts of mutants' names")
    parser.add_argument("--show", action="store_true", help="say how each mutant was found")
    options = parser.parse_args()
    missed, count, start = 0, 0, time.perf_counter()
    for subject in SUBJECTS:
        prey: Prey | None = None
        for mutant in _chosen(subject, options.words, lambda subject=subject: Prey(subject)):
            prey, one = mutant
            verdict = prey.hunt(one)
            count += 1
            missed += not verdict.found
            if options.show or not verdict.found:
                how = f"{verdict.mode}: {verdict.by}" if verdict.found else "NOT FOUND"
                print(f"{one.name} | PTX {one.line}: {one.statement} | {one.source} | {how}", flush=True)
    print(f"{count} mutants, {missed} not found, {time.perf_counter() - start:.1f} s")
    return missed


def _chosen(subject: Subject, words: list[str], make: Callable[[], Prey]) -> Iterator[tuple[Prey, Mutant]]:
    prey = make()
    for mutant in prey.mutants():
        if all(word in f"{mutant.name} " for word in words):
            yield prey, mutant


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
