"""A schedule: an immutable sequence of primitives, built by chaining."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.dsl import Program, Target

from . import text
from .errors import IllegalStep, ScheduleNotApplied
from .placement import default_placements, place_open
from .primitive import Lowered, Primitive, described, written
from .primitives import (
    Alias,
    CacheHint,
    Cluster,
    CopyEngine,
    FastMath,
    MinBlocks,
    NoAlias,
    Order,
    Overlap,
    Pad,
    Partition,
    Persistent,
    PingPong,
    Pipeline,
    Place,
    Rasterize,
    Specialize,
    SplitK,
    Stage,
    StreamK,
    SwapGrid,
    Swizzle,
    Threads,
    Unroll,
    Vectorize,
)
from .short_runs import short_runs_apart


@dataclass(frozen=True)
class Schedule:
    """How a program is to run: steps applied in order, each checked before and proved after lowering.

    Equal by value and hashable. Every method returns a new schedule with one step more; the empty schedule changes
    nothing. Handles are names from ``program.outline()``.
    """

    primitives: tuple[Primitive, ...] = ()

    def then(self, *steps: Primitive) -> Schedule:
        """With further steps."""
        return Schedule((*self.primitives, *steps))

    def threads(self, n: int) -> Schedule:
        """Launch ``n`` threads a block."""
        return self.then(Threads(n))

    def pipeline(self, loop: str, depth: int) -> Schedule:
        """Load ``depth - 1`` iterations of ``loop`` ahead."""
        return self.then(Pipeline(loop, depth))

    def rasterize(self, panel: int, order: str = "row") -> Schedule:
        """Visit tiles in panels of ``panel`` rows (or columns, ``order="column"``)."""
        return self.then(Rasterize(panel, order))

    def min_blocks(self, n: int) -> Schedule:
        """Leave registers for ``n`` blocks a multiprocessor."""
        return self.then(MinBlocks(n))

    def swap_grid(self) -> Schedule:
        """Exchange the first two grid axes."""
        return self.then(SwapGrid())

    def fast_math(self) -> Schedule:
        """Approximate float32 functions."""
        return self.then(FastMath())

    def place(self, tile: str, where: str) -> Schedule:
        """Keep ``tile`` in ``"shared"`` memory or in a ``"fragment"``."""
        return self.then(Place(tile, where))

    def copy_engine(self, copy: str, engine: str) -> Schedule:
        """Move a tile by ``"tma"``, ``"cp_async"`` or ``"sync"``."""
        return self.then(CopyEngine(copy, engine))

    def cache_hint(self, copy: str, policy: str) -> Schedule:
        """Let L2 evict what ``copy`` loads ``"first"``, ``"last"`` or as ``"normal"``."""
        return self.then(CacheHint(copy, policy))

    def swizzle(self, tile: str, width: int = 128) -> Schedule:
        """Spread the rows of a shared tile over the banks."""
        return self.then(Swizzle(tile, width))

    def pad(self, tile: str, elements: int) -> Schedule:
        """Leave unused elements behind every row of a shared tile."""
        return self.then(Pad(tile, elements))

    def partition(self, gemm: str, policy: str) -> Schedule:
        """Divide a product among warps: ``"square"``, ``"full_row"`` or ``"full_col"``."""
        return self.then(Partition(gemm, policy))

    def vectorize(self, handle: str, width: int) -> Schedule:
        """Let a thread take ``width`` elements of a parallel loop or a copy at a time."""
        return self.then(Vectorize(handle, width))

    def cluster(self, x: int, y: int = 1, z: int = 1, multicast: bool = False) -> Schedule:
        """Launch blocks in clusters."""
        return self.then(Cluster(x, y, z, multicast))

    def no_alias(self, tensor: str, promised: bool = True) -> Schedule:
        """Promise that no other tensor overlaps ``tensor``, or take the promise back."""
        return self.then(NoAlias(tensor, promised))

    def stage(self, handle: str, tensor: str = "", parts: int = 1) -> Schedule:
        """Send a copy (in ``parts`` pieces), or what a parallel loop reads of ``tensor``, through a new shared tile."""
        return self.then(Stage(handle, tensor, parts))

    def alias(self, tile: str, other: str) -> Schedule:
        """Keep ``other`` in the memory of ``tile``."""
        return self.then(Alias(tile, other))

    def persistent(self, blocks: int = 0) -> Schedule:
        """Launch ``blocks`` blocks (0: one a multiprocessor) that take tiles in turn."""
        return self.then(Persistent(blocks))

    def split_k(self, loop: str, parts: int) -> Schedule:
        """Let ``parts`` blocks share the iterations of ``loop``."""
        return self.then(SplitK(loop, parts))

    def stream_k(self, loop: str, blocks: int = 0) -> Schedule:
        """Divide all iterations of ``loop`` over all tiles evenly among ``blocks`` (0: one a multiprocessor)."""
        return self.then(StreamK(loop, blocks))

    def order(self, loop: str, statements: Sequence[str], stages: Sequence[int] = ()) -> Schedule:
        """Run the statements of ``loop`` in this order, those of stage ``s`` working ``s`` iterations behind."""
        return self.then(Order(loop, tuple(statements), tuple(stages)))

    def overlap(self, loop: str, statement: str, by: int = 1) -> Schedule:
        """Run ``statement`` with what it needs ``by`` iterations ahead of the rest of ``loop``."""
        return self.then(Overlap(loop, statement, by))

    def unroll(self, loop: str, factor: int = 0) -> Schedule:
        """Repeat the body of ``loop`` ``factor`` times a round (0: as often as it runs)."""
        return self.then(Unroll(loop, factor))

    def specialize(self, consumers: int = 2, producer_registers: int = 24, consumer_registers: int = 240) -> Schedule:
        """Let one warpgroup load and ``consumers`` compute, with registers of their own."""
        return self.then(Specialize(consumers, producer_registers, consumer_registers))

    def ping_pong(self, loop: str, first: str, last: str) -> Schedule:
        """Let consumers take turns in ``loop`` from ``first`` to ``last``."""
        return self.then(PingPong(loop, first, last))

    def apply(self, program: Program, target: Target) -> Program:
        """The scheduled program; the same object when there is no step and no open tile.

        Open tiles that no step places go where their use suggests, before the first step.

        Raises:
            ScheduleError: a step that the program or target cannot take, with its handle and line.
        """
        program = place_open(program, self._placed())
        for step in self.primitives:
            step.check(program, target)
            rewritten = step.apply(program, target)
            if rewritten is program:
                raise IllegalStep(f"{written(step)} changed nothing in {program.name}", span=step.locate(program))
            program = rewritten
        return short_runs_apart(program)

    def verify(self, artifact: Lowered, program: Program | None = None) -> None:
        """Prove every step in the generated code; ``program`` lets the error name the line.

        Raises:
            ScheduleNotApplied: lowering dropped a step.
        """
        for step in self.primitives:
            try:
                step.effect(artifact)
            except ScheduleNotApplied as error:
                if error.span is None and program is not None:
                    error.span = step.locate(program)
                raise

    def to_json(self) -> str:
        """JSON text with a version; ``from_json`` gives back an equal schedule."""
        return text.to_json(self.primitives)

    @staticmethod
    def from_json(source: str) -> Schedule:
        """The schedule that ``to_json`` wrote.

        Raises:
            BadScheduleText: damaged text, another version, an unknown step or option, a value of another type.
        """
        return Schedule(text.from_json(source))

    def describe(self, program: Program | None = None) -> str:
        """One line a step: its number, the step as it is written, and what it does.

        With a program, also where each of its open tiles goes by default, and why.

        Raises:
            CannotPlace: an open tile whose place its uses do not tell.
        """
        lines = [f"{n}. {written(step)}: {described(step)}" for n, step in enumerate(self.primitives, 1)]
        lines = lines or ["no steps: the program as written"]
        if program is not None:
            lines.extend(f"by default, {placement}" for placement in default_placements(program, self._placed()))
        return "\n".join(lines)

    def _placed(self) -> frozenset[str]:
        """The tiles that steps place."""
        return frozenset(step.tile for step in self.primitives if isinstance(step, Place))

    def __str__(self) -> str:
        return "Schedule()" + "".join(f".{written(step)}" for step in self.primitives)

    def __len__(self) -> int:
        return len(self.primitives)

    def __bool__(self) -> bool:
        return bool(self.primitives)

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self.primitives)
