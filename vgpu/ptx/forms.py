"""Spellings in the notation of the PTX ISA: ``{.ftz}`` may be there, ``(.f32|.f64)`` is a choice."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .plan import Opcode


class Forms:
    """The legal spellings of some opcodes; everything behind the opcode is matched in the order of the ISA."""

    def __init__(self, *forms: str, **names: str) -> None:
        self.forms = [_expand(form, names) for form in forms]
        texts = [form.replace(".", r"\.").replace("{", "(?:").replace("}", ")?") for form in self.forms]
        self.patterns = [re.compile(text) for text in texts]

    def take(self, op: Opcode) -> frozenset[str]:
        """Takes all modifiers of ``op``.

        Raises:
            UnsupportedInstruction: no form has them; the message shows the two that are nearest.
        """
        tail = op.text[len(op.root) :]
        words = frozenset(op.rest)
        if not any(p.fullmatch(tail) for p in self.patterns):
            nearest = sorted(self.forms, key=lambda form: -len(words & {*re.findall(r"[\w:]+", form)}))[:2]
            raise op.refuse(f"is no spelling of {op.root}; it takes {' or '.join(op.root + form for form in nearest)}")
        op.rest = []
        return words


def _expand(form: str, names: Mapping[str, str]) -> str:
    for name, meaning in names.items():
        form = form.replace(f"<{name}>", meaning)
    return form
