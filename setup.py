"""Builds the engine of the virtual GPU; everything else is in pyproject.toml."""

from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import setup

HEADERS = sorted(map(str, Path("vgpu/engine").glob("*.h")))


def needs_recompile(obj: str, source: str) -> bool:
    """Whether the object file is older than its source or any header of the engine."""
    built = Path(obj)
    return not built.exists() or any(Path(f).stat().st_mtime >= built.stat().st_mtime for f in (source, *HEADERS))


ParallelCompile("NPY_NUM_BUILD_JOBS", needs_recompile=needs_recompile).install()

ENGINE = Pybind11Extension(
    "tilewright.vgpu._engine",
    sorted(map(str, Path("vgpu/engine").glob("*.cpp"))),
    cxx_std=17,
    include_dirs=["vgpu/engine"],
    depends=HEADERS,
    # Contraction would fuse a multiplication and an addition that PTX keeps apart.
    extra_compile_args=["-O3", "-Wall", "-Wextra", "-ffp-contract=off", "-fno-math-errno", "-pthread"],
    extra_link_args=["-pthread"],
)

setup(ext_modules=[ENGINE])
