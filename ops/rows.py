"""Row-wise operators: how tensors become matrices of rows, how wide an access may be, and the tile of one block."""

from __future__ import annotations

from dataclasses import dataclass

import torch

ACCESS_BYTES = 16
MAX_WIDTH = 32768  # columns that one block keeps in registers: 32 for each of 1024 threads
PIECE = 8192  # columns of one piece of a row that is taken in pieces
_PER_THREAD = 16  # float32 registers of a row that a thread holds without spilling, with room for the rest


@dataclass(frozen=True)
class RowTile:
    """One block's tile: ``rows`` by ``width`` elements, ``threads`` threads, accesses of ``access`` elements."""

    rows: int
    width: int
    threads: int
    access: int


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """``x`` (..., N) as a matrix (M, N) whose rows have stride 1 and one pitch; a copy where no view is."""
    n = x.shape[-1]
    try:
        matrix = x.view(-1, n) if x.numel() else x.reshape(0, n)
    except RuntimeError:
        matrix = x.reshape(-1, n)
    if n > 1 and matrix.stride(1) != 1:
        matrix = matrix.contiguous()
    return matrix


def pitch(matrix: torch.Tensor) -> int:
    """Elements from a row to the next; a single row counts as dense."""
    return matrix.stride(0) if matrix.shape[0] > 1 else matrix.shape[1]


def access_elements(*matrices: torch.Tensor) -> int:
    """The most elements that one access may read of every matrix or vector, by size, pitch and address."""
    width = ACCESS_BYTES // max(1, min(matrix.element_size() for matrix in matrices))
    while width > 1 and not all(_takes(matrix, width) for matrix in matrices):
        width //= 2
    return width


def _takes(matrix: torch.Tensor, width: int) -> bool:
    reach = min(ACCESS_BYTES, width * matrix.element_size())
    rows = matrix.dim() > 1 and matrix.shape[0] > 1
    return (
        matrix.shape[-1] % width == 0
        and (not rows or matrix.stride(0) % width == 0)
        and (matrix.is_meta or matrix.data_ptr() % reach == 0)
    )


def row_tile(n: int, access: int, per_thread: int = _PER_THREAD) -> RowTile:
    """The tile for rows of ``n`` elements: a few widths serve all sizes, and narrow rows share a block.

    A thread holds at most ``2 * per_thread`` elements of a row as long as 1024 threads are enough for that.
    """
    accesses = max(1, -(-n // access))
    if accesses < 128:
        across = 1 << (accesses - 1).bit_length()
        return RowTile(max(1, min(16, 128 // across)), across * access, 128, access)
    each = {threads: -(-accesses // threads) for threads in (128, 256, 512, 1024)}
    fitting = [threads for threads in each if each[threads] * access <= 2 * per_thread] or [1024]
    threads = min(fitting, key=lambda count: (count * _rounded(each[count]), abs(each[count] * access - per_thread)))
    return RowTile(1, threads * access * _rounded(each[threads]), threads, access)


def _rounded(count: int) -> int:
    """Up to 4 as it is, then the next power of two, so that few kernels serve all sizes."""
    return count if count <= 4 else 1 << (count - 1).bit_length()


def piece_tile(n: int, access: int, most: int, per_thread: int = _PER_THREAD) -> tuple[RowTile, bool]:
    """The tile of a program that takes a row whole up to ``most`` columns, else in pieces; and whether it is whole."""
    whole = n <= most
    return row_tile(n if whole else PIECE, access, per_thread), whole
