"""PTX as lines: the compiler writes one statement a line, so that an edit keeps every other line's number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_STATEMENT = re.compile(r"(?:(@!?[%$\w]+)\s+)?([a-z][\w.:]*)(?:\s+(.*?))?\s*;$")
Edit = Mapping[int, str]  # line, from 0 -> its new text


@dataclass(frozen=True)
class Statement:
    """One instruction: guard ("" or ``@%p1``), opcode with its modifiers, and operands as written."""

    guard: str
    opcode: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.guard, self.opcode, ", ".join(self.operands)))) + ";"

    def has(self, *parts: str) -> bool:
        """Whether the opcode has all these modifiers; the first part is the beginning."""
        words = self.opcode.split(".")
        first = parts[0].split(".")
        return words[: len(first)] == first and all(part in words for part in parts[1:])

    def replaced(self, opcode: str | None = None, operands: tuple[str, ...] | None = None) -> str:
        """The statement's text with another opcode or other operands."""
        return str(Statement(self.guard, opcode or self.opcode, self.operands if operands is None else operands))


def split_operands(text: str) -> tuple[str, ...]:
    """Operands at the top level: commas inside brackets and braces belong to one."""
    out, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += character in "[{("
        depth -= character in ")}]"
        if character == "," and depth == 0:
            out.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return (*out, last) if last else tuple(out)


class Ptx:
    """A PTX text and its statements by line, from 0."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.statements: dict[int, Statement] = {}
        for number, line in enumerate(self.lines):
            if found := _STATEMENT.match(line.split("//")[0].strip()):
                guard, opcode, operands = found.groups()
                self.statements[number] = Statement(guard or "", opcode, split_operands(operands or ""))

    def labels(self, name: str) -> list[int]:
        """The lines where a label of this name stands."""
        return [n for n, line in enumerate(self.lines) if line.strip() == f"{name}:"]

    def same_block(self, first: int, last: int) -> bool:
        """Whether control only runs straight through from one line to a later one."""
        between = range(first + 1, last)
        jumps = any(n in self.statements and self.statements[n].opcode.split(".")[0] in ("bra", "ret") for n in between)
        return not jumps and not any(self.lines[n].strip().endswith(":") for n in between)

    def edited(self, edit: Edit) -> str:
        """The text with some lines replaced; the number of lines stays."""
        assert all("\n" not in line for line in edit.values())
        return "\n".join(edit.get(n, line) for n, line in enumerate(self.lines))


def registers(text: str) -> set[str]:
    """The registers named in some operands."""
    return set(re.findall(r"%[A-Za-z]\w*", text))
