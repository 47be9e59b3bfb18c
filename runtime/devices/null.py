"""A device that checks arguments and packs parameters but launches nothing: it measures the cost of a call."""

from __future__ import annotations

from tilewright.lowering import Artifact, TensorMapParameter

from ..entry import Launcher
from ..signature import Signature
from .packing import TENSOR_MAP_BYTES, Submit, submitter


class NullDevice:
    """Does everything a launch does on the host, up to the driver call."""

    def prepare(self, artifact: Artifact, signature: Signature, index: int) -> Launcher:
        """A launcher that packs the parameters and drops them."""
        return submitter(signature, _no_map, _no_launch)


def _no_map(
    parameter: TensorMapParameter,
    pointer: int,
    dims: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    element_strides: tuple[int, ...],
) -> bytes:
    return bytes(TENSOR_MAP_BYTES)


def _no_launch(index: int) -> Submit:
    return _drop


def _drop(*_launch: int) -> None:
    return
