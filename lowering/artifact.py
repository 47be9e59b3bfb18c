"""The artifact of lowering: source, binaries, resources and launch plan of one program for one target.

On disk an artifact is one file: a magic line, the SHA-256 of all that follows, the length of a JSON header, the header,
and the texts and binaries that the header lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.dsl import Target
from tilewright.schedules import Schedule

from .errors import BadArtifact, BadPlan
from .layouts import TileLayout
from .plan import LaunchPlan

MAGIC = b"tilewright artifact 1\n"
_BLOBS = ("cuda", "ptx", "cubin", "program_text", "log")


@dataclass(frozen=True)
class Resources:
    """What one kernel uses, as ptxas reports it.

    ``registers`` are 32-bit and per thread; ``spill_stores``, ``spill_loads``, ``stack`` and ``constant`` are bytes per
    thread (the last per module); ``static_shared`` is bytes per block; ``dynamic_shared`` too, or -1 when it depends on
    shapes; ``barriers`` counts named barriers. ``remarks`` holds what ptxas remarked (such as C7510, serialised wgmma).
    """

    kernel: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    static_shared: int
    dynamic_shared: int
    constant: int
    barriers: int
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Artifact:
    """A lowered program. ``key`` is its content address; ``remarks`` says what the user should know about the code.

    ``program_text`` is the scheduled program's IR, ``log`` the compiler's log, ``toolchain`` its version;
    ``layouts`` tells where the elements of each tile are.
    """

    key: str
    target: Target
    plan: LaunchPlan
    cuda: str
    ptx: str
    cubin: bytes
    resources: tuple[Resources, ...]
    schedule: Schedule
    program_text: str
    log: str
    toolchain: str
    remarks: tuple[str, ...] = ()
    layouts: tuple[TileLayout, ...] = ()

    def save(self, path: str | Path) -> Path:
        """Write the artifact to one file and return its path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(to_bytes(self))
        return target

    @staticmethod
    def load(path: str | Path) -> Artifact:
        """The artifact that ``save`` wrote.

        Raises:
            BadArtifact: the file is missing, damaged, or of another version.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise BadArtifact(f"cannot read artifact {path}: {error.strerror}") from error
        return from_bytes(data, str(path))


def to_bytes(artifact: Artifact) -> bytes:
    """The artifact in its file format."""
    blobs = [_encode(getattr(artifact, name)) for name in _BLOBS]
    header = json.dumps(
        {
            "key": artifact.key,
            "target": artifact.target.name,
            "plan": artifact.plan.to_json(),
            "resources": [asdict(r) for r in artifact.resources],
            "schedule": artifact.schedule.to_json(),
            "toolchain": artifact.toolchain,
            "remarks": artifact.remarks,
            "layouts": [asdict(layout) for layout in artifact.layouts],
            "sizes": [len(blob) for blob in blobs],
        }
    ).encode()
    rest = b"".join([len(header).to_bytes(8, "little"), header, *blobs])
    return MAGIC + hashlib.sha256(rest).digest() + rest


def from_bytes(data: bytes, where: str, schedule: Schedule | None = None) -> Artifact:
    """The artifact in ``data``; ``where`` names it in errors. ``schedule`` spares decoding the stored one.

    Raises:
        BadArtifact: the bytes are damaged or of another version.
    """
    start = len(MAGIC) + 32
    if not data.startswith(MAGIC) or len(data) < start + 8:
        raise BadArtifact(f"{where} is not an artifact of this version")
    if hashlib.sha256(memoryview(data)[start:]).digest() != data[len(MAGIC) : start]:
        raise BadArtifact(f"{where} is damaged: its checksum does not match")
    size = int.from_bytes(data[start : start + 8], "little")
    position = start + 8 + size
    try:
        header: Mapping[str, Any] = json.loads(data[start + 8 : position])
        blobs: dict[str, bytes] = {}
        for name, length in zip(_BLOBS, header["sizes"], strict=True):
            blobs[name] = data[position : position + length]
            position += length
        return _build(header, blobs, schedule)
    except (KeyError, ValueError, TypeError, BadPlan) as error:
        raise BadArtifact(f"{where} cannot be read: {error}") from error


def _build(header: Mapping[str, Any], blobs: Mapping[str, bytes], schedule: Schedule | None) -> Artifact:
    return Artifact(
        key=header["key"],
        target=Target(header["target"]),
        plan=LaunchPlan.from_json(header["plan"]),
        cuda=blobs["cuda"].decode(),
        ptx=blobs["ptx"].decode(),
        cubin=blobs["cubin"],
        resources=tuple(Resources(**{**r, "remarks": tuple(r["remarks"])}) for r in header["resources"]),
        schedule=schedule if schedule is not None else Schedule.from_json(header["schedule"]),
        program_text=blobs["program_text"].decode(),
        log=blobs["log"].decode(),
        toolchain=header["toolchain"],
        remarks=tuple(header["remarks"]),
        layouts=tuple(_layout(record) for record in header["layouts"]),
    )


def _layout(record: Mapping[str, Any]) -> TileLayout:
    return TileLayout(**{**record, "shape": tuple(record["shape"]), "variables": tuple(record["variables"])})


def _encode(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
