"""What is accepted and refused of memory and control instructions, against the verdicts of the toolkit's assembler."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from spellings import FAMILIES

from tilewright.lowering import Toolchain
from tilewright.vgpu.errors import PtxSyntaxError, UnsupportedInstruction
from tilewright.vgpu.launch import kernel_of, parse

HEAD = """.version 8.8
.target {target}
.address_size 64
"""
KERNEL = """.visible .entry k{number}(.param .u64 p0)
{{
.reg .pred %p<4>; .reg .b16 %h<10>; .reg .b32 %r<10>; .reg .f32 %f<10>; .reg .b64 %d<10>; .reg .f64 %g<10>;
.reg .b128 %q<10>; .shared .align 16 .b8 sm[64];
{statement}
ret;
}}
"""


def ptxas() -> Path:
    """The assembler of the toolkit in the environment."""
    return Toolchain.find().home / "bin" / "ptxas"


def assembled(statements: list[str], target: str, folder: Path) -> list[bool]:
    """Whether the assembler takes each statement, alone in a kernel."""
    legal = [True] * len(statements)
    source = folder / "kernels.ptx"
    while True:
        text, places = HEAD.format(target=target), {}
        for number, statement in enumerate(statements):
            if legal[number]:
                kernel = KERNEL.format(number=number, statement=statement)
                places[text.count("\n") + kernel[: kernel.index(statement)].count("\n") + 1] = number
                text += kernel
        source.write_text(text)
        run = subprocess.run(
            [ptxas(), f"-arch={target}", source, "-o", folder / "out"], capture_output=True, text=True, check=False
        )
        wrong = {places[int(n)] for n in re.findall(r"line (\d+)", run.stderr + run.stdout) if int(n) in places}
        if run.returncode == 0:
            return legal
        assert wrong, run.stderr
        for number in wrong:
            legal[number] = False


def accepted(statement: str, target: str) -> bool:
    """Whether the virtual GPU encodes the statement for the target."""
    module = parse(HEAD.format(target=target) + KERNEL.format(number=0, statement=statement))
    try:
        kernel = kernel_of(module, "k0")
    except (UnsupportedInstruction, PtxSyntaxError) as error:
        return not re.match(r"PTX line \d+: ", str(error))  # every refusal names its line
    return all(need.met_by(target) for need, _, _ in kernel.needs)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_assembler_agrees(family: str, target: str, tmp_path: Path) -> None:
    statements = list(dict.fromkeys(FAMILIES[family]()))
    legal = assembled(statements, target, tmp_path)
    assert 4 < sum(legal) < len(statements)
    wrong = {s: ok for s, ok in zip(statements, legal, strict=True) if accepted(s, target) != ok}
    assert not wrong, f"{len(wrong)} of {len(statements)} differ from the assembler's verdicts: {wrong}"
