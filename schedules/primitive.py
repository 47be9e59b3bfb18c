"""What every primitive is: frozen options, a legality check, a rewrite, and a proof after lowering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Protocol, runtime_checkable

from tilewright.dsl import Program, Target
from tilewright.errors import SourceSpan


class Size(Protocol):
    """A size of a launch over the shape variables."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables it reads."""

    def evaluate(self, **values: int) -> int:
        """Its value."""


class Launch(Protocol):
    """The part of a kernel launch that proofs read."""

    @property
    def grid(self) -> Sequence[Size]:
        """Blocks along x, y, z."""

    @property
    def block(self) -> Sequence[Size]:
        """Threads along x, y, z."""

    @property
    def cluster(self) -> tuple[int, int, int] | None:
        """Blocks of a cluster along x, y, z."""


class Argument(Protocol):
    """A parameter of the program."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def dtype(self) -> str:
        """Its element type."""


class Plan(Protocol):
    """The parameters and launches of an artifact."""

    @property
    def arguments(self) -> Sequence[Argument]:
        """In order."""

    @property
    def launches(self) -> Sequence[Launch]:
        """In order."""


class Layout(Protocol):
    """Where the elements of a tile are, as texts over ``variables``."""

    @property
    def tile(self) -> str:
        """The tile's name."""

    @property
    def dtype(self) -> str:
        """Its element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents, pipeline slots in front."""

    @property
    def variables(self) -> tuple[str, ...]:
        """One a dimension."""

    @property
    def index(self) -> str:
        """Offset of an element."""

    @property
    def thread(self) -> str:
        """The thread that holds it, empty in shared memory."""


class Lowered(Protocol):
    """The part of an artifact that proofs read."""

    @property
    def target(self) -> Target:
        """The machine it was lowered for."""

    @property
    def cuda(self) -> str:
        """The generated CUDA source."""

    @property
    def ptx(self) -> str:
        """The PTX text."""

    @property
    def plan(self) -> Plan:
        """The launch plan."""

    @property
    def layouts(self) -> Sequence[Layout]:
        """Of the tiles that have one."""

    @property
    def program_text(self) -> str:
        """The scheduled program's IR."""


@runtime_checkable
class Primitive(Protocol):
    """One step of a schedule: a frozen dataclass whose fields are its options.

    ``name`` is the step's name in ``Schedule`` and in JSON; ``words`` says what it does, with its options in braces for
    ``describe``. ``check`` raises a ``ScheduleError`` that names handle and
    line; ``apply`` rewrites a checked program; ``effect`` raises ``ScheduleNotApplied`` when the code does not show it.
    """

    name: ClassVar[str]
    words: ClassVar[str]

    def check(self, program: Program, target: Target) -> None:
        """Refuse what cannot be done."""

    def apply(self, program: Program, target: Target) -> Program:
        """The rewritten program."""

    def effect(self, artifact: Lowered) -> None:
        """Prove that lowering kept it."""

    def locate(self, program: Program) -> SourceSpan | None:
        """The source line it acts on."""


def options_of(step: Primitive) -> Mapping[str, Any]:
    """A step's options by name, in order."""
    return {field.name: getattr(step, field.name) for field in fields(step)}  # type: ignore[arg-type]


def written(step: Primitive) -> str:
    """The step as it is written in a chain: ``pipeline('k', 3)``."""
    return f"{step.name}({', '.join(repr(value) for value in options_of(step).values())})"


def described(step: Primitive) -> str:
    """What the step does, in words."""
    return step.words.format(**options_of(step))
