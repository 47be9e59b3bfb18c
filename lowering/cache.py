"""The content-addressed artifact cache: a memo in the process, and one file an artifact on disk.

A file is published by renaming a finished temporary one, so readers in any number of processes see whole files only. A
damaged file is a miss with a warning. A folder that cannot be written is replaced by a temporary one, with a warning.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import threading
import uuid
import warnings
from collections import OrderedDict
from pathlib import Path

from tilewright import knobs
from tilewright.dsl import Program, Target
from tilewright.schedules import Schedule

from . import repairs
from .artifact import Artifact, from_bytes, to_bytes
from .errors import BadArtifact, LoweringWarning
from .options import Options
from .toolchain import Toolchain, package_version, tilelang_version

_PACKAGES = ("dsl", "schedules", "lowering")  # the code that decides what an artifact holds
_MEMO_ENTRIES = 1024

_lock = threading.Lock()
_memo: OrderedDict[str, Artifact] = OrderedDict()
_replacements: dict[Path, Path] = {}
_hits = {"memory_hits": 0, "disk_hits": 0, "damaged": 0}


def artifact_key(program: Program, schedule: Schedule, target: Target, options: Options) -> str:
    """The content address of what lowering makes of these inputs, as 64 hexadecimal digits."""
    return _key(program.name, program.fingerprint, schedule, target.name, options.to_json(), _tools(Toolchain.find()))


@functools.lru_cache(maxsize=4096)
def _key(name: str, fingerprint: str, schedule: Schedule, target: str, options: str, tools: tuple[str, ...]) -> str:
    parts = (name, fingerprint, schedule.to_json(), target, options, *tools)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def find(key: str, schedule: Schedule) -> Artifact | None:
    """The artifact of that key, or None; a damaged file counts as absent and warns."""
    if not knobs.CACHE.flag():
        return None
    with _lock:
        artifact = _memo.get(key)
        if artifact is not None:
            _memo.move_to_end(key)
            _hits["memory_hits"] += 1
            return artifact
    path = artifact_path(key)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    try:
        artifact = from_bytes(data, str(path), schedule)
        if artifact.key != key:
            raise BadArtifact(f"{path} holds another artifact")
    except BadArtifact as error:
        _hits["damaged"] += 1
        warnings.warn(f"{error.what}; it is built again", LoweringWarning, stacklevel=4)
        return None
    with _lock:
        _hits["disk_hits"] += 1
    _remember(artifact)
    return artifact


def counters() -> dict[str, int]:
    """Hits of this process in memory and on disk, damaged entries met, and ``cache_hits``, all hits."""
    return {**_hits, "cache_hits": _hits["memory_hits"] + _hits["disk_hits"]}


def publish(artifact: Artifact) -> None:
    """Store an artifact for this and later processes."""
    if not knobs.CACHE.flag():
        return
    _remember(artifact)
    path = artifact_path(artifact.key)
    data = to_bytes(artifact)
    try:
        _write(path, data)
    except OSError as error:
        path = _replacement(path.parent.parent, error) / path.parent.name / path.name
        with contextlib.suppress(OSError):
            _write(path, data)


def forget() -> None:
    """Empty the process's memo; the files stay."""
    with _lock:
        _memo.clear()


def artifact_path(key: str) -> Path:
    """Where the artifact of that key is stored."""
    base = knobs.cache_dir() / "artifacts"
    return _replacements.get(base, base) / key[:2] / f"{key}.tw"


def _remember(artifact: Artifact) -> None:
    with _lock:
        _memo[artifact.key] = artifact
        while len(_memo) > _MEMO_ENTRIES:
            _memo.popitem(last=False)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{uuid.uuid4().hex}"
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _replacement(base: Path, error: OSError) -> Path:
    if base in _replacements.values():
        return base
    folder = Path(tempfile.mkdtemp(prefix="tilewright-"))
    _replacements[base] = folder
    atexit.register(_remove, folder, os.getpid())
    warnings.warn(
        f"the artifact cache {base} cannot be written ({error.strerror}); using {folder} until this process ends",
        LoweringWarning,
        stacklevel=5,
    )
    return folder


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _tools(chain: Toolchain) -> tuple[str, ...]:
    """Everything outside the inputs that decides the outcome: versions, and our own source text."""
    version = package_version("tilewright")
    return (chain.version, tilelang_version(), version, source_digest(), *repairs.NAMES)


@functools.cache
def source_digest() -> str:
    """SHA-256 of the Python sources of the layers that make artifacts (contents, not times)."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


source_digest()  # of the code as imported: a file that is edited later changes nothing in this process
