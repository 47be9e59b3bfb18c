"""``vectorize(handle, width)``: how many neighbouring elements one access of a thread takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tilewright.dsl import Entry, Loop, Operation, Program, Target, bits, tirx
from tilewright.dsl import rewrite as edit
from tilewright.errors import SourceSpan

from ..accesses import access_widths, global_buffers
from ..errors import IllegalStep, IllegalValue
from ..evidence import dropped
from ..handles import find
from ..primitive import Lowered, written

_WIDTHS = (1, 2, 4, 8, 16)
_LARGEST = 128  # bits of one access


@dataclass(frozen=True)
class Vectorize:
    """Give each thread ``width`` neighbouring elements of a parallel loop, or of a copy by threads, at a time.

    ::

        for i in threads, steps:           ->      for i in threads, steps / width:
            B[i] = f(A[i])                             load A[i * width : (i + 1) * width]; f of each; store all

    Without the step TileLang takes the widest access that the types and extents allow.
    """

    handle: str
    width: int

    name: ClassVar[str] = "vectorize"
    words: ClassVar[str] = "let a thread take {width} elements of {handle} at a time"

    def check(self, program: Program, target: Target) -> None:
        """The last extent is a multiple, and no access grows beyond 128 bits."""
        entry = self._entry(program)
        if isinstance(self.width, bool) or self.width not in _WIDTHS:
            raise IllegalValue(
                f"{written(self)}: width must be 1, 2, 4, 8 or 16 elements",
                span=entry.span,
                values={"width": repr(self.width)},
            )
        detail = entry.detail
        if isinstance(detail, Loop) and detail.kind == "parallel":
            extent = detail.axes[-1][1]
        elif isinstance(detail, Operation) and detail.name == "copy":
            extent = detail.regions[-1].extents[-1]
        else:
            raise IllegalStep(
                f"{written(self)}: {entry.label!r} is no parallel loop and no copy",
                span=entry.span,
                remedy="name one, as the outline does",
            )
        tensors = global_buffers(entry.node)
        if not tensors:
            raise IllegalStep(
                f"{written(self)}: {entry.label!r} touches no global tensor, and registers have no vectors",
                span=entry.span,
                remedy="leave the step out",
            )
        widest = max(bits(str(buffer.dtype)) for buffer in tensors) * self.width
        if not isinstance(extent, int) or extent % self.width or widest > _LARGEST:
            raise IllegalStep(
                f"{written(self)}: {self.width} elements do not make whole accesses of at most {_LARGEST} bits",
                span=entry.span,
                values={"last extent": extent, "bits of an access": widest},
                remedy="use a smaller width",
            )

    def apply(self, program: Program, target: Target) -> Program:
        """Annotate the loop or copy."""
        node = self._entry(program).node
        values = {"coalesced_width": self.width}
        annotate = edit.annotate_loop if isinstance(node, tirx.For) else edit.annotate_call
        return annotate(program, node, values)

    def effect(self, artifact: Lowered) -> None:
        """A global tensor of the loop or copy is accessed with that width."""
        named = set(re.findall(r"\w+", self.handle))
        tensors = [argument for argument in artifact.plan.arguments if argument.name in named]
        seen = {a.name: access_widths(artifact.cuda, a) for a in tensors or artifact.plan.arguments}
        if not any(self.width in widths for widths in seen.values()):
            text = ", ".join(f"{name} by {sorted(widths) or 'no'} elements" for name, widths in seen.items())
            raise dropped(self, artifact, text, "the layout of a fragment may ask for another width")

    def locate(self, program: Program) -> SourceSpan | None:
        """The loop or copy."""
        return self._entry(program).span

    def _entry(self, program: Program) -> Entry:
        return find(self, program, self.handle, "loop", "op")
