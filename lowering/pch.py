"""Precompiled headers for NVRTC: one per prelude and set of options, made on second use in each process.

NVRTC loads such a file at the address at which it was made, so a file serves only the process that made it. Each
process therefore keeps its own folder under the cache folder, and removes it at exit; folders of dead processes go too.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import platform
import shutil
import threading
import uuid
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright import knobs

from .errors import LoweringWarning

HEAP_BYTES = 400 << 20  # the sm_90a prelude needs 320 MB; unused pages cost nothing

_HOST = "".join(c if c.isalnum() else "_" for c in platform.node()) or "host"
_lock = threading.Lock()
_made: dict[str, list[str]] = {}
_seen: set[str] = set()
_folders: dict[int, Path | None] = {}


def precompiled(
    head: str, options: Sequence[str], compile_head: Callable[[str, list[str]], tuple[int, Any]]
) -> list[str]:
    """Options that make a compilation use the precompiled ``head``, or none when that is impossible or not worth it.

    ``compile_head(text, options)`` compiles a text with options added and returns NVRTC's code first. A header is made
    when the same options are seen for the second time: it costs two seconds and up to 0.3 GB of disk.
    """
    key = hashlib.sha256("\0".join([head, *options]).encode()).hexdigest()[:16]
    with _lock:
        if key not in _seen:
            _seen.add(key)
            return []
        if key not in _made:
            made = _make(key, head, compile_head)
            if made is None:
                return []
            _made[key] = made
        return _made[key]


def forget() -> None:
    """Remove this process's precompiled headers; the next compilation makes them again."""
    with _lock:
        _made.clear()
        _seen.clear()
        folder = _folders.pop(os.getpid(), None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _make(key: str, head: str, compile_head: Callable[[str, list[str]], tuple[int, Any]]) -> list[str] | None:
    """The options; none when there can be no header; None when the head does not compile, as with a wrong flag."""
    folder = _folder()
    if folder is None:
        return []
    code, _ = compile_head(head, [f"--create-pch={key}.pch", f"-pch-dir={folder}"])
    if code != 0:
        return None
    if not (folder / f"{key}.pch").is_file():
        warnings.warn(
            f"no precompiled header could be made in {folder}; compiling is slower", LoweringWarning, stacklevel=5
        )
        return []
    return [f"--use-pch={key}.pch", f"-pch-dir={folder}"]


def _folder() -> Path | None:
    pid = os.getpid()
    if pid not in _folders:
        _folders[pid] = _new_folder(knobs.cache_dir() / "pch", pid)
    return _folders[pid]


def _new_folder(base: Path, pid: int) -> Path | None:
    folder = base / f"{_HOST}-{pid}-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        warnings.warn(
            f"precompiled headers are off, since {base} cannot be written ({error.strerror}); compiling is slower",
            LoweringWarning,
            stacklevel=7,
        )
        return None
    _remove_dead(base)
    atexit.register(_remove_own, folder, pid)
    return folder


def _remove_own(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_dead(base: Path) -> None:
    for folder in base.iterdir():
        host, _, rest = folder.name.rpartition("-")[0].rpartition("-")
        if host == _HOST and rest.isdigit() and not _alive(int(rest)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, 0)
        return True
    return Path(f"/proc/{pid}").exists()
