"""SASS of an artifact through nvdisasm (or cuobjdump), with the source line of each instruction."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .artifact import Artifact
from .errors import ToolchainMissing
from .toolchain import Toolchain

_SECTION = re.compile(r"^\.text\.([\w$]+):|^//-+ \.text\.([\w$]+)")
_LINE = re.compile(r'//## File "([^"]+)", line (\d+)(?: inlined at "([^"]+)", line (\d+))?')
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*(?:/\*.*)?$")


@dataclass(frozen=True)
class SassLine:
    """One instruction: its kernel, byte address, text, and the chain of places (file, line), innermost first."""

    kernel: str
    address: int
    text: str
    places: tuple[tuple[str, int], ...]


def disassemble(artifact: Artifact, toolchain: Toolchain | None = None) -> str:
    """The SASS of an artifact's cubin as text, with ``//## File`` comments that lead to the kernel's lines.

    Raises:
        ToolchainMissing: neither nvdisasm nor cuobjdump was found, or the tool failed.
    """
    chain = toolchain or Toolchain.find()
    try:
        command = [str(chain.program("nvdisasm")), "-c", "-gi"]
    except ToolchainMissing:
        command = [str(chain.program("cuobjdump")), "-sass"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(artifact.cubin)
        # nvdisasm is called by cuobjdump through PATH
        environment = {**os.environ, "PATH": f"{chain.home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise ToolchainMissing(f"{command[0]} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def parse_sass(text: str) -> Iterator[SassLine]:
    """The instructions of ``disassemble``'s text, in order."""
    kernel = ""
    places: list[tuple[str, int]] = []
    fresh = True
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section:
            kernel, places = section[1] or section[2], []
            continue
        place = _LINE.search(line)
        if place:
            if fresh:
                places = []
            fresh = False
            places.append((place[1], int(place[2])))
            if place[3]:
                places.append((place[3], int(place[4])))
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction and instruction[2]:
            fresh = True
            yield SassLine(kernel, int(instruction[1], 16), instruction[2], tuple(dict.fromkeys(places)))
