"""``tilewright doctor``: what was found, and what is missing."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from tilewright import knobs

from ..outcome import Outcome, finish, table

PACKAGES = ("tilewright", "tilelang", "torch", "numpy", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime")


def _outcome() -> Outcome:
    from tilewright.dsl import Target
    from tilewright.lowering import describe_toolchain

    found: dict[str, Any] = {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "toolchain": describe_toolchain(),
        "driver": _driver(),
        "devices": _devices(),
        "vgpu": _engine(),
        "cache": _cache(),
        "targets": {"default": Target.default().name, "known": list(Target.names())},
        "knobs": {knob.name: os.environ.get(knob.name) for knob in knobs.ALL},
    }
    found["missing"] = _missing(found)
    return Outcome(found, _view(found), passed=not found["missing"])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _driver() -> dict[str, Any]:
    """The CUDA driver, asked without torch; a machine without one is no fault."""
    from cuda.bindings import driver

    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:
        return {"found": False, "why": str(error)}
    if status != driver.CUresult.CUDA_SUCCESS:
        return {"found": False, "why": status.name}
    _, number = driver.cuDriverGetVersion()
    return {"found": True, "version": f"{number // 1000}.{number % 1000 // 10}"}


def _devices() -> list[dict[str, Any]]:
    import torch

    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(index)
        found.append({"name": torch.cuda.get_device_name(index), "capability": f"{major}.{minor}"})
    return found


def _engine() -> dict[str, Any]:
    try:
        from tilewright.vgpu import MODES
    except ImportError as error:
        return {"found": False, "why": str(error)}
    return {"found": True, "modes": list(MODES), "threads": knobs.VGPU_THREADS.number() or os.cpu_count()}


def _cache() -> dict[str, Any]:
    folder = knobs.cache_dir()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return {
        "folder": str(folder),
        "on": knobs.CACHE.flag(),
        "writable": _writable(),
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
    }


def _writable() -> bool:
    folder = knobs.cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _missing(found: Mapping[str, Any]) -> list[dict[str, str]]:
    missing = list(found["toolchain"]["missing"])
    for name, number in found["packages"].items():
        if number is None:
            missing.append({"part": name, "why": "the package is not installed", "remedy": f"pip install {name}"})
    if not found["vgpu"]["found"]:
        remedy = "install Tilewright again: its engine is compiled at install"
        missing.append({"part": "vgpu engine", "why": found["vgpu"]["why"], "remedy": remedy})
    if not found["cache"]["writable"]:
        why = f"{found['cache']['folder']} cannot be written"
        missing.append({"part": "cache", "why": why, "remedy": "set TILEWRIGHT_CACHE_DIR to a folder that can"})
    return missing


def _view(found: Mapping[str, Any]) -> tuple[Any, ...]:
    chain, driver, cache = found["toolchain"], found["driver"], found["cache"]
    devices = [f"{device['name']} ({device['capability']})" for device in found["devices"]]
    rows = [
        ("python", found["python"]),
        *((name, number or "not installed") for name, number in found["packages"].items()),
        ("toolchain", f"{chain['home']} ({chain['origin']})" if chain["home"] else "not found"),
        *((part, _part(chain[part])) for part in ("nvrtc", "ptxas", "nvdisasm", "cuobjdump") if part in chain),
        ("driver", driver.get("version") or f"none ({driver['why']})"),
        ("devices", ", ".join(devices) or "none: kernels run on the virtual GPU"),
        ("virtual GPU", f"{found['vgpu']['threads']} host threads" if found["vgpu"]["found"] else "engine not built"),
        ("cache", f"{cache['folder']}: {cache['files']} files, {cache['bytes'] / 1e6:.1f} MB"),
        ("default target", found["targets"]["default"]),
        *((name, value) for name, value in found["knobs"].items() if value is not None),
    ]
    lines = [f"missing: {one['part']}: {one['why']}\n  fix: {one['remedy']}" for one in found["missing"]]
    return (table("tilewright doctor", ("what", "found"), rows), *(lines or ["nothing is missing"]))


def _part(described: Mapping[str, Any]) -> str:
    return f"{described.get('version', '')} {described['path']}".strip()


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def doctor(as_json: bool) -> None:
    """Say which toolchain, driver, devices and caches were found; exit 1 if something needed is missing.

    A machine without a GPU is complete: kernels run on the virtual GPU there.
    """
    finish(_outcome, as_json)
