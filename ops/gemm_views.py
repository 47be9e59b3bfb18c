"""How a matmul's tensors lie in memory: orientation, pitch, alignment, and batches folded to one dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import torch

WIDTHS = (16, 8, 4)  # bytes of one asynchronous copy, widest first


@dataclass(frozen=True)
class Operand:
    """A matrix, or batch of them, as it is stored.

    Attributes:
        tensor: (batch, outer, inner), inner of stride 1; batch 1 serves every matrix of C.
        transposed: whether ``outer`` counts the matrix's columns.
        align: largest power of two, up to 16, that divides the byte offsets of all rows.
        width: the same, and divides the bytes of a row too.
    """

    tensor: torch.Tensor
    transposed: bool
    align: int
    width: int

    @property
    def pitch(self) -> int:
        """Elements from one row to the next."""
        return self.tensor.stride(1)

    @property
    def stride(self) -> int:
        """Elements from one matrix to the next."""
        return self.tensor.stride(0)


def operand_of(matrices: torch.Tensor) -> Operand:
    """The storage of (batch, rows, columns). Copies only what has no dimension of stride 1 or overlaps itself."""
    views = [view for view in (_oriented(matrices, False), _oriented(matrices, True)) if view is not None]
    if not views:
        return operand_of(matrices.contiguous())
    return max(views, key=lambda view: (view.width, not view.transposed))


def _oriented(matrices: torch.Tensor, transposed: bool) -> Operand | None:
    batch, outer, inner = matrices.shape
    stride, pitch, step = matrices.stride()
    if transposed:
        outer, inner, pitch, step = inner, outer, step, pitch
    if (step != 1 and inner != 1) or (pitch < inner and outer != 1):
        return None
    unit = 16 // matrices.element_size()
    if outer == 1:
        pitch = -(-inner // unit) * unit
    if batch == 1:
        stride = pitch * outer
    tensor = matrices.as_strided((batch, outer, inner), (stride, pitch, 1))
    offsets = math.gcd(tensor.data_ptr(), pitch * tensor.element_size(), stride * tensor.element_size(), 16)
    return Operand(tensor, transposed, offsets, math.gcd(offsets, inner * tensor.element_size()))


def folded(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """(A, B, C) of rank 3 whose products make up C: one where strides allow it, else one for each outer batch index.

    A batch that B does not have becomes rows of A; a batch dimension that an operand broadcasts has size 1 in it.
    """
    batch, (m, n), k = c.shape[:-2], c.shape[-2:], a.shape[-1]
    pitch = _row_pitch(a)
    if b.dim() == 2 and pitch is not None:
        yield a.as_strided((1, c.numel() // n, k), (0, pitch, a.stride(-1))), b[None], c.view(1, -1, n)
        return
    wide_a, wide_b = a.expand(*batch, m, k), b.expand(*batch, k, n)
    dims = _merged(batch, wide_a.stride()[:-2], wide_b.stride()[:-2])
    size, stride_a, stride_b, stride_c = dims[-1] if dims else (1, 0, 0, 0)
    for index in product(*(range(extent) for extent, *_ in dims[:-1])):
        offsets = [sum(i * dim[axis] for i, dim in zip(index, dims, strict=False)) for axis in (1, 2, 3)]
        yield (
            _matrices(wide_a, size, stride_a, offsets[0]),
            _matrices(wide_b, size, stride_b, offsets[1]),
            _matrices(c, size, stride_c * m * n, offsets[2] * m * n),
        )


def _row_pitch(a: torch.Tensor) -> int | None:
    """The one stride of all dimensions but the last, when they are one dimension in memory."""
    dims = [(size, stride) for size, stride in zip(a.shape[:-1], a.stride()[:-1], strict=True) if size != 1]
    joined = all(outer == size * stride for (_, outer), (size, stride) in pairwise(dims))
    return None if not joined else dims[-1][1] if dims else a.shape[-1]


def _merged(
    batch: torch.Size, strides_a: tuple[int, ...], strides_b: tuple[int, ...]
) -> list[tuple[int, int, int, int]]:
    """Batch dimensions as (size, stride of A, of B, of C in matrices), neighbours joined where A and B allow it."""
    merged: list[tuple[int, int, int, int]] = []
    count = 1
    for size, stride_a, stride_b in reversed(list(zip(batch, strides_a, strides_b, strict=True))):
        if size == 1:
            continue
        inner = merged[0] if merged else None
        if inner is not None and stride_a == inner[0] * inner[1] and stride_b == inner[0] * inner[2]:
            merged[0] = (size * inner[0], *inner[1:])
        else:
            merged.insert(0, (size, stride_a, stride_b, count))
        count *= size
    return merged


def _matrices(tensor: torch.Tensor, size: int, stride: int, offset: int) -> torch.Tensor:
    shape = (size if stride else 1, *tensor.shape[-2:])
    return tensor.as_strided(shape, (stride, *tensor.stride()[-2:]), tensor.storage_offset() + offset)


def load_width(operands: tuple[Operand, Operand]) -> int:
    """Bytes that every row of both operands can be read in: 16, 8 or 4, else one element."""
    width = min(operand.width for operand in operands)
    return width if width in WIDTHS else operands[0].tensor.element_size()
