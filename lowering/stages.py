"""Recording of TileLang's passes: a TVM instrument that keeps the module's text around every pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm.ir.instrument import pass_instrument


@dataclass(frozen=True)
class PassRecord:
    """One executed pass: its number in the order of execution, its name, and the module's text before and after."""

    number: int
    name: str
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """True when the text differs."""
        return self.before != self.after


@pass_instrument
class PassRecorder:
    """Records every pass that runs in a PassContext it is given to; ``records`` is in the order in which passes end."""

    def __init__(self) -> None:
        self.records: list[PassRecord] = []
        self._open: list[str] = []

    def run_before_pass(self, module: Any, info: Any) -> None:
        """Keep the text before the pass."""
        self._open.append(module.script())

    def run_after_pass(self, module: Any, info: Any) -> None:
        """Complete the record of the pass."""
        self.records.append(PassRecord(len(self.records) + 1, str(info.name), self._open.pop(), module.script()))


def pass_texts(records: list[PassRecord]) -> Mapping[str, str]:
    """The text after each pass by name (``tl.Simplify``, then ``tl.Simplify#2`` ...), and ``passes``, their index."""
    texts: dict[str, str] = {"passes": ""}
    index: list[str] = []
    for record in records:
        count = 1 + sum(1 for name in texts if name.split("#")[0] == record.name)
        name = record.name if count == 1 else f"{record.name}#{count}"
        texts[name] = record.after
        index.append(f"{record.number:3d}  {'changed  ' if record.changed else 'unchanged'}  {name}")
    texts["passes"] = "\n".join(index) + "\n"
    return texts
