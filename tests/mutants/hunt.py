"""Which check of the default recipe finds a mutant: all modes in turn, with race detection, against the reference."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from equivalents import equivalents
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

    @property
    def first_check(self) -> str:
        """``race``, ``deadlock`` or the only other kind of finding; a race counts before what follows from it."""
        kinds = self.by.split("+")
        return next((kind for kind in ("race", "deadlock") if kind in kinds), kinds[0])


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


def table(verdicts: Sequence[Verdict], key: Callable[[Verdict], str], title: str) -> str:
    """Rows of a table in Markdown: mutants, equivalent ones, found ones, and by which mode and which check first."""
    known = equivalents()
    lines = [
        f"| {title} | mutants | equivalent | found | eager | skew | random | race | deadlock | other | result |",
        "|---" * 11 + "|",
    ]
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(key(verdict), []).append(verdict)
    for name, group in [*groups.items(), ("all", list(verdicts))]:
        found = [v for v in group if v.found]
        modes = Counter(v.mode for v in found)
        checks = Counter(v.first_check for v in found)
        other = len(found) - sum(checks[c] for c in ("race", "deadlock", "result"))
        cells = [len(group), sum(v.mutant.name in known for v in group), len(found), modes["eager"], modes["skew"]]
        cells += [modes["random"], checks["race"], checks["deadlock"], other, checks["result"]]
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> int:
    """Hunts the mutants whose names contain all the given words, and lists those that are not found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("words", nargs="*", help="parts of mutants' names")
    parser.add_argument("--show", action="store_true", help="say how each mutant was found")
    parser.add_argument("--table", action="store_true", help="print the tables of README.md")
    options = parser.parse_args()
    start, known = time.perf_counter(), equivalents()
    verdicts = []
    for verdict in _verdicts(options.words):
        verdicts.append(verdict)
        one = verdict.mutant
        if options.show or not (verdict.found or one.name in known):
            how = f"{verdict.mode}: {verdict.by}" if verdict.found else "not found"
            print(f"{one.name} | PTX {one.line}: {one.statement} | {one.source} | {how}", flush=True)
    if options.table:
        print(table(verdicts, lambda v: v.mutant.kernel, "kernel"), end="\n\n")
        print(table(verdicts, lambda v: v.mutant.kind, "mutation"), end="\n\n")
    missed = sum(not v.found and v.mutant.name not in known for v in verdicts)
    equivalent = sum(v.mutant.name in known for v in verdicts)
    seconds = time.perf_counter() - start
    print(f"{len(verdicts)} mutants, {equivalent} equivalent, {missed} missed, {seconds:.0f} s")
    return missed


def _verdicts(words: list[str]) -> Iterator[Verdict]:
    for subject in SUBJECTS:
        prey = Prey(subject)
        for mutant in prey.mutants():
            if all(word in mutant.name for word in words):
                yield prey.hunt(mutant)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
