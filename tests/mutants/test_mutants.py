"""Mutants of the kernels are found by the checks that ``tilewright check`` runs by default, and only they are."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from equivalents import equivalents
from hunt import Prey
from mutations import MUTATIONS, Mutant
from subjects import SUBJECTS, Subject

from tilewright import vgpu

IDS = [f"{s.name}-{s.target}" for s in SUBJECTS]
each_subject = pytest.mark.parametrize("subject", SUBJECTS, ids=IDS)


@functools.cache
def prey_of(subject: Subject) -> Prey:
    return Prey(subject)


def hunted(mutants: list[Mutant], prey: Prey) -> list[str]:
    """The names of the mutants that are not found."""
    return [m.name for m in mutants if not prey.hunt(m).found]


@each_subject
def test_the_kernels_are_right_in_every_mode(subject: Subject) -> None:
    prey = prey_of(subject)
    report = prey.check(prey.kernel.ptx, tuple(vgpu.MODES))
    assert report.ok, str(report)
    assert [run.mode for run in report.runs] == list(vgpu.MODES)


def test_there_are_enough_mutants_and_the_equivalent_ones_exist() -> None:
    mutants = [m for subject in SUBJECTS for m in prey_of(subject).mutants()]
    names = {m.name for m in mutants}
    assert len(names) == len(mutants) >= 800
    assert len({m.kernel.split()[0] for m in mutants}) >= 10
    assert {m.kind for m in mutants} == set(MUTATIONS)
    unknown = set(equivalents()) - names
    assert not unknown, f"no such mutants: {sorted(unknown)}"
    assert len(names) - len(equivalents()) >= 150


@each_subject
def test_a_mutant_is_one_edit(subject: Subject) -> None:
    prey = prey_of(subject)
    original = prey.kernel.ptx.split("\n")
    for mutant in prey.mutants():
        lines = mutant.text.split("\n")
        assert len(lines) == len(original)
        changed = [n + 1 for n, (a, b) in enumerate(zip(original, lines, strict=True)) if a != b]
        assert mutant.line in changed
        assert len(changed) <= 3  # a wait is a test and two jumps
        assert mutant.source, mutant.name


@each_subject
def test_the_first_mutant_of_each_kind_is_found(subject: Subject) -> None:
    prey, known = prey_of(subject), equivalents()
    first: dict[str, Mutant] = {}
    for mutant in prey.mutants():
        if mutant.name not in known:
            first.setdefault(mutant.kind, mutant)
    assert hunted(list(first.values()), prey) == []


@pytest.mark.long
@each_subject
def test_all_but_the_equivalent_mutants_are_found(subject: Subject) -> None:
    prey, known = prey_of(subject), equivalents()
    missed = hunted(prey.mutants(), prey)
    kernels = Counter(name.rsplit(" ", 1)[0] for name in missed)
    assert sorted(missed) == sorted(n for n in known if n.startswith(f"{prey.name} ")), kernels
