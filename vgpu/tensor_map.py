"""Tensor maps: the view of a tensor that TMA instructions take, tiled or im2col, under the rules of the CUDA driver."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from .errors import TensorMapError
from .view import View, view_of

_MAGIC = 0x70616D5F77656974
_LAYOUT = struct.Struct("<QQ5Q5Q5H5B4BB3h3h")
_MAX_RANK = 5
_MAX_BOX = 232_448  # bytes of shared memory of a block

# name: (number of the CUtensorMapDataType, bytes, is a float)
_TYPES: dict[str, tuple[int, int, bool]] = {
    "uint8": (0, 1, False),
    "int8": (0, 1, False),
    "float8_e4m3fn": (0, 1, False),
    "float8_e5m2": (0, 1, False),
    "uint16": (1, 2, False),
    "int16": (1, 2, False),
    "uint32": (2, 4, False),
    "int32": (3, 4, False),
    "uint64": (4, 8, False),
    "int64": (5, 8, False),
    "float16": (6, 2, True),
    "float32": (7, 4, True),
    "float64": (8, 8, True),
    "bfloat16": (9, 2, True),
    "float32_ftz": (10, 4, True),
    "tfloat32": (11, 4, True),
    "tfloat32_ftz": (12, 4, True),
}
_NAMES = {number: name for name, (number, _, _) in reversed(_TYPES.items())}
_CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}  # cuTensorMapEncodeIm2col: bounds of the corners by rank
_SWIZZLE_SPAN = (16, 32, 64, 128)


class TensorMap:
    """A tiled view of ``tensor`` for ``cp.async.bulk.tensor``, checked when it is made.

    Args:
        tensor: a torch tensor (anything with ``data_ptr()``, ``element_size()``, ``shape`` and ``stride()``) or a
            numpy array; kept alive.
        dtype: element type by name (``"float16"``, ``"uint8"`` ...) or ``CUtensorMapDataType`` number.
        dims: extents, innermost first, 1 to 5 of them.
        strides: bytes between neighbours of every dimension but the innermost: multiples of 16 below 2**40.
        box: extents of a tile, at most 256 each; the innermost in bytes is a multiple of 16 and fits the swizzle.
        element_strides: steps of the traversal, 1 to 8.
        interleave: 0; interleaved layouts are not run.
        swizzle: 0 none, 1, 2, 3 for 32, 64, 128 bytes.
        l2_promotion: 0 to 3, changes nothing here.
        oob_fill: 0 zeros, 1 NaN (float types).
        lower_corner: makes a map of im2col mode: the first place of a pixel along dimensions 1 to rank - 2. ``box`` is
            then (channels of a pixel, pixels of a column), at most 256 and 1024.
        upper_corner: how far from the last place of the dimension the walk of the pixels ends, at most 0 inside.

    Raises:
        TensorMapError: a rule of ``cuTensorMapEncodeTiled`` or ``cuTensorMapEncodeIm2col`` (CUDA driver API, "Tensor
            Map Object Management") is broken, the view leaves the tensor, or it is no tensor.
    """

    def __init__(
        self,
        tensor: Any,
        dtype: str | int,
        dims: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        element_strides: Sequence[int],
        *,
        interleave: int = 0,
        swizzle: int = 0,
        l2_promotion: int = 0,
        oob_fill: int = 0,
        lower_corner: Sequence[int] | None = None,
        upper_corner: Sequence[int] | None = None,
    ) -> None:
        self.tensor = tensor
        self.view = _view(tensor)
        self.dtype = _type_name(dtype)
        self.dims = tuple(int(n) for n in dims)
        self.strides = tuple(int(n) for n in strides)
        self.box = tuple(int(n) for n in box)
        self.element_strides = tuple(int(n) for n in element_strides)
        self.interleave = int(interleave)
        self.swizzle = int(swizzle)
        self.l2_promotion = int(l2_promotion)
        self.oob_fill = int(oob_fill)
        self.im2col = lower_corner is not None or upper_corner is not None
        self.lower_corner = tuple(int(n) for n in lower_corner or ())
        self.upper_corner = tuple(int(n) for n in upper_corner or ())
        self._check_lengths()
        self._check_modes()
        self._check_view()
        self._check_corners()
        self._check_box()
        self._check_memory()

    def pack(self) -> bytes:
        """The 128 bytes that stand for a ``CUtensorMap`` in kernel parameters or memory."""
        number, size, _ = _TYPES[self.dtype]
        fill = [1] * (_MAX_RANK - len(self.dims))
        dims, steps = ((*values, *fill) for values in (self.dims, self.element_strides))
        box = (*self.box, *[1] * (_MAX_RANK - len(self.box)))
        lower, upper = ((*c, *[0] * (_MAX_RANK - 2 - len(c))) for c in (self.lower_corner, self.upper_corner))
        strides = (size, *self.strides, *[0] * len(fill))
        flags = (len(self.dims), number, self.swizzle, self.oob_fill, self.im2col)
        return _LAYOUT.pack(_MAGIC, self.view.address, *dims, *strides, *box, *steps, *flags, *lower, *upper)

    def __repr__(self) -> str:
        return (
            f"TensorMap({self.dtype}, dims={self.dims}, strides={self.strides}, box={self.box}, swizzle={self.swizzle})"
        )

    def _check_lengths(self) -> None:
        rank = len(self.dims)
        if not 1 <= rank <= _MAX_RANK:
            raise TensorMapError(f"dims has {rank} entries", remedy="a tensor map has 1 to 5 dimensions")
        if self.im2col and rank < 3:
            raise TensorMapError(f"dims has {rank} entries", remedy="an im2col tensor map has 3 to 5 dimensions")
        for name, values, wanted in (
            ("strides", self.strides, rank - 1),
            ("box", self.box, 2 if self.im2col else rank),
            ("element_strides", self.element_strides, rank),
            ("lower_corner", self.lower_corner, rank - 2 if self.im2col else 0),
            ("upper_corner", self.upper_corner, rank - 2 if self.im2col else 0),
        ):
            if len(values) != wanted:
                raise TensorMapError(f"{name} has {len(values)} entries for {rank} dimensions", values={name: values})

    def _check_modes(self) -> None:
        if self.interleave != 0:
            raise TensorMapError("interleaved tensor maps are not run", values={"interleave": self.interleave})
        for name, value, top in (
            ("swizzle", self.swizzle, 3),
            ("l2_promotion", self.l2_promotion, 3),
            ("oob_fill", self.oob_fill, 1),
        ):
            if not 0 <= value <= top:
                raise TensorMapError(f"{name} is not one of 0 to {top}", values={name: value})
        if self.oob_fill and not _TYPES[self.dtype][2]:
            raise TensorMapError("oob_fill 1 (NaN) needs a float type", values={"dtype": self.dtype})

    def _check_view(self) -> None:
        if any(not 1 <= n <= 2**32 for n in self.dims):
            raise TensorMapError("dims must be 1 to 2**32 each", values={"dims": self.dims})
        if any(s % 16 or not 0 <= s < 2**40 for s in self.strides):
            raise TensorMapError(
                "strides must be multiples of 16 bytes below 2**40",
                values={"strides": self.strides},
                remedy="pad the rows of the tensor to 16 bytes, or copy it without TMA",
            )
        if any(not 1 <= n <= 8 for n in self.element_strides):
            raise TensorMapError(
                "element_strides must be 1 to 8 each", values={"element_strides": self.element_strides}
            )
        if self.view.address % 16:
            raise TensorMapError(
                "the tensor must start at a multiple of 16 bytes", values={"address": hex(self.view.address)}
            )

    def _check_corners(self) -> None:
        limit = _CORNERS.get(len(self.dims), 0)
        for name, corner in (("lower_corner", self.lower_corner), ("upper_corner", self.upper_corner)):
            if any(not -limit <= n < limit for n in corner):
                raise TensorMapError(
                    f"{name} must be {-limit} to {limit - 1} each for {len(self.dims)} dimensions",
                    values={name: corner},
                )
        boxes = zip(self.dims[1:-1], self.lower_corner, self.upper_corner, strict=False)
        if any(size + upper <= lower for size, lower, upper in boxes):
            raise TensorMapError(
                "the corners leave no pixel",
                values={"lower_corner": self.lower_corner, "upper_corner": self.upper_corner},
            )

    def _check_box(self) -> None:
        if self.im2col and not (1 <= self.box[0] <= 256 and 1 <= self.box[1] <= 1024):
            raise TensorMapError("box must be 1 to 256 channels and 1 to 1024 pixels", values={"box": self.box})
        if not self.im2col and any(not 1 <= n <= 256 for n in self.box):
            raise TensorMapError("box must be 1 to 256 each", values={"box": self.box})
        inner = self.box[0] * _TYPES[self.dtype][1]
        if inner % 16:
            raise TensorMapError(
                "the innermost box row must be a multiple of 16 bytes", values={"box": self.box, "row bytes": inner}
            )
        total = math.prod(self.box) * _TYPES[self.dtype][1]
        if total > _MAX_BOX:
            raise TensorMapError(
                "the box does not fit shared memory", values={"box": self.box, "bytes": total, "limit": _MAX_BOX}
            )
        if self.swizzle and inner > _SWIZZLE_SPAN[self.swizzle]:
            raise TensorMapError(
                f"the innermost box row must fit the {_SWIZZLE_SPAN[self.swizzle]}-byte swizzle",
                values={"box": self.box, "row bytes": inner},
            )

    def _check_memory(self) -> None:
        size = _TYPES[self.dtype][1]
        steps = (size, *self.strides)
        extent = size + sum((n - 1) * s for n, s in zip(self.dims, steps, strict=True))
        length = self.view.hull[1] - self.view.address
        if extent > length:
            raise TensorMapError(
                "the tensor map reaches beyond its tensor", values={"bytes needed": int(extent), "bytes there": length}
            )


def _type_name(dtype: str | int) -> str:
    name = _NAMES.get(dtype, "") if isinstance(dtype, int) else str(dtype).removeprefix("torch.")
    if name not in _TYPES:
        raise TensorMapError(
            f"dtype {dtype!r} is not an element type of tensor maps", remedy=f"use one of {list(_TYPES)}"
        )
    return name


def _view(tensor: Any) -> View:
    view = view_of(tensor)
    if view is None:
        raise TensorMapError(
            f"a tensor map of {type(tensor).__name__}, which is no tensor",
            remedy="pass a torch tensor or a numpy array",
        )
    return view
