"""Tensors of torch and arrays of numpy, as memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class TensorLike(Protocol):
    """What a torch tensor offers."""

    @property
    def shape(self) -> Sequence[int]:
        """Extents."""
        ...

    def data_ptr(self) -> int:
        """Address of the first element."""
        ...

    def element_size(self) -> int:
        """Bytes of an element."""
        ...

    def stride(self) -> Sequence[int]:
        """Elements between neighbours of each dimension."""
        ...


@runtime_checkable
class ArrayLike(Protocol):
    """What a numpy array or scalar offers."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        ...

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes between neighbours of each dimension."""
        ...

    def item(self) -> int | float:
        """The only element."""
        ...


@dataclass(frozen=True)
class View:
    """A strided tensor in CPU memory: address of its first element, bytes of an element, extents, strides in bytes."""

    address: int
    item: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool = True

    @property
    def hull(self) -> tuple[int, int]:
        """First and last-plus-one byte address that an element may have; equal when there is none."""
        if 0 in self.shape:
            return self.address, self.address
        spans = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return self.address + sum(s for s in spans if s < 0), self.address + self.item + sum(s for s in spans if s > 0)


def view_of(value: Any) -> View | None:
    """Where a tensor lies: a torch tensor (anything with its ``data_ptr``) or a numpy array; None for other objects."""
    if isinstance(value, TensorLike):
        item = int(value.element_size())
        return View(value.data_ptr(), item, tuple(map(int, value.shape)), tuple(int(s) * item for s in value.stride()))
    if isinstance(value, ArrayLike):
        address, read_only = value.__array_interface__["data"]
        return View(address, value.itemsize, value.shape, value.strides, not read_only)
    return None
