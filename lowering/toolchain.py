"""Where the CUDA toolchain is: NVRTC, its headers, and the disassemblers.

Looked for in the folder in ``TILEWRIGHT_CUDA_HOME`` alone if that is set; else in the pip wheels (``nvidia/cu13``),
``CUDA_HOME`` and ``/usr/local/cuda``. The first with NVRTC is taken whole: mixed versions refuse to work together.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright import knobs

from .errors import ToolchainMissing

_REMEDIES = {
    "nvrtc": "pip install nvidia-cuda-nvrtc==13.0.88, or set TILEWRIGHT_CUDA_HOME to a CUDA 13 toolkit",
    "headers": "pip install nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-cuda-crt==13.0.88",
    "ptxas": "pip install nvidia-cuda-nvcc==13.0.88",
    "nvdisasm": "pip install nvidia-cuda-nvdisasm",
    "cuobjdump": "pip install nvidia-cuda-cuobjdump",
}


@dataclass(frozen=True)
class Toolchain:
    """A CUDA toolkit: its folder, how it was found, the NVRTC library, and the header folders."""

    home: Path
    origin: str
    nvrtc: Path
    includes: tuple[Path, ...]

    @staticmethod
    def find() -> Toolchain:
        """The toolkit to use.

        Raises:
            ToolchainMissing: no place has an NVRTC library; the message lists where it was looked for.
        """
        return _find(knobs.CUDA_HOME.text(), os.environ.get("CUDA_HOME"))

    @functools.cached_property
    def version(self) -> str:
        """What identifies the compiler in cache keys, found without loading it."""
        if self.origin == "pip wheels":
            parts = ("nvrtc", "cccl", "crt")
            return " ".join(f"{part} {package_version(f'nvidia-cuda-{part}')}" for part in parts)
        library = self.nvrtc.resolve()
        return f"{library.name} {library.stat().st_size} bytes"

    def program(self, name: str) -> Path:
        """The path of ``ptxas``, ``nvdisasm`` or ``cuobjdump``.

        Raises:
            ToolchainMissing: this toolkit does not have it.
        """
        path = self.home / "bin" / name
        if not os.access(path, os.X_OK):
            raise ToolchainMissing(f"{name} was not found at {path}", remedy=_REMEDIES[name])
        return path

    def describe(self) -> dict[str, Any]:
        """Paths, versions, and what is missing with its remedy; never raises."""
        report: dict[str, Any] = {"home": str(self.home), "origin": self.origin, "nvrtc": {"path": str(self.nvrtc)}}
        missing: list[dict[str, str]] = []
        try:
            from .nvrtc import supported_archs, version

            report["nvrtc"] |= {"version": version(self), "archs": list(supported_archs(self))}
        except ToolchainMissing as error:
            missing.append({"part": "nvrtc", "why": error.what, "remedy": error.remedy})
        report["headers"] = [str(folder) for folder in self.includes]
        if not (self.includes[0] / "cuda_fp16.h").is_file():
            missing.append(
                {"part": "headers", "why": f"no cuda_fp16.h in {self.includes[0]}", "remedy": _REMEDIES["headers"]}
            )
        for name in ("ptxas", "nvdisasm", "cuobjdump"):
            try:
                report[name] = {"path": str(self.program(name))}
            except ToolchainMissing as error:
                missing.append({"part": name, "why": error.what, "remedy": error.remedy})
        report["tilelang"] = {"version": tilelang_version(), "path": str(tilelang_folder())}
        report["missing"] = missing
        return report


def describe() -> dict[str, Any]:
    """``Toolchain.describe`` of the toolkit in use, or what is missing when there is none."""
    try:
        return Toolchain.find().describe()
    except ToolchainMissing as error:
        return {"home": None, "missing": [{"part": "nvrtc", "why": error.what, "remedy": error.remedy}]}


@functools.cache
def tilelang_folder() -> Path:
    """Where TileLang's Python package and its CUDA templates are.

    Raises:
        ToolchainMissing: TileLang is not installed.
    """
    spec = importlib.util.find_spec("tilelang")
    if spec is None or spec.origin is None:
        raise ToolchainMissing("TileLang is not installed", remedy="pip install tilelang==0.1.15")
    return Path(spec.origin).parent


@functools.cache
def tilelang_version() -> str:
    """TileLang's version."""
    return package_version("tilelang")


@functools.cache
def _installed() -> Mapping[str, str]:
    """Versions of the packages beside TileLang, from folder names: reading metadata takes ten times longer."""
    names = (path.name.removesuffix(".dist-info") for path in tilelang_folder().parent.glob("*.dist-info"))
    return {name.lower().replace("_", "-"): version for name, _, version in (n.rpartition("-") for n in names)}


def package_version(name: str) -> str:
    """The version of an installed package, or ``unknown``."""
    if name in _installed():
        return _installed()[name]
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def _find(chosen: str | None, cuda_home: str | None) -> Toolchain:
    looked: list[str] = []
    for origin, home in _places(chosen, cuda_home):
        library = _library(home)
        if library is not None:
            return Toolchain(home, origin, library, _includes(home))
        looked.append(f"{home} ({origin})")
    raise ToolchainMissing(
        "no CUDA toolkit with NVRTC was found", values={"looked in": "; ".join(looked)}, remedy=_REMEDIES["nvrtc"]
    )


def _places(chosen: str | None, cuda_home: str | None) -> Iterator[tuple[str, Path]]:
    if chosen is not None:
        yield "TILEWRIGHT_CUDA_HOME", Path(chosen).expanduser()
        return
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        yield "pip wheels", Path(folder) / "cu13"
    if cuda_home:
        yield "CUDA_HOME", Path(cuda_home)
    yield "default", Path("/usr/local/cuda")


def _library(home: Path) -> Path | None:
    found: Sequence[Path] = [
        path
        for folder in ("lib", "lib64")
        for path in sorted((home / folder).glob("libnvrtc.so*"))
        if re.fullmatch(r"libnvrtc\.so\.\d+", path.name)
    ]
    return found[0] if found else None


def _includes(home: Path) -> tuple[Path, ...]:
    return (home / "include", home / "include" / "cccl")


def versions() -> Mapping[str, str]:
    """Versions that decide what code comes out: compiler and TileLang."""
    return {"toolchain": Toolchain.find().version, "tilelang": tilelang_version()}
