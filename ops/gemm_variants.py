"""From the numbers of one matmul to the kernel that computes it: unit, access widths, tile, program and schedule."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dsl import Target
from tilewright.schedules import Schedule

from .gemm_fma import gemm_fma
from .gemm_programs import gemm_mma
from .gemm_symbols import ITEM_BYTES
from .gemm_tiles import Tile, pick, tiles_of
from .kernels import Recipe


@dataclass(frozen=True)
class Problem:
    """One matmul in numbers.

    Attributes:
        align: power of two, up to 16, that divides the byte offsets of all rows of A and B.
        width: bytes (16, 8, 4 or one element) in which all rows of A and B can be read whole.
        tensor_cores: float32 only: round operands to tf32.
    """

    m: int
    n: int
    batch: int
    dtype: str
    out_dtype: str
    transpose_a: bool
    transpose_b: bool
    align: int
    width: int
    bias_dtype: str | None = None
    activation: str | None = None
    tensor_cores: bool = True


@dataclass(frozen=True)
class Variant:
    """One kernel: everything that is fixed when it is compiled; all sizes are its arguments."""

    unit: str
    dtype: str
    out_dtype: str
    transpose_a: bool
    transpose_b: bool
    load: str
    store: str
    bias_dtype: str | None
    activation: str | None
    tile: Tile

    def recipe(self, target: Target, schedule: Schedule | None = None) -> Recipe:
        """How its kernel is compiled; ``schedule`` None takes the default."""
        values: dict[str, object] = {
            "out_dtype": self.out_dtype,
            "transpose_a": self.transpose_a,
            "transpose_b": self.transpose_b,
            "load": self.load,
            "store": self.store,
            "bias_dtype": self.bias_dtype,
            "activation": self.activation,
            "tile_m": self.tile.m,
            "tile_n": self.tile.n,
            "tile_k": self.tile.k_bytes // ITEM_BYTES[self.dtype],
        }
        chosen = self.schedule() if schedule is None else schedule
        if self.unit == "fma":
            return Recipe(gemm_fma, tuple(values.items()), target, chosen)
        accumulator = "int32" if self.dtype == "int8" else "float32"
        values |= {"unit": self.unit, "dtype": self.dtype, "accumulator": accumulator}
        return Recipe(gemm_mma, tuple(values.items()), target, chosen)

    def schedule(self) -> Schedule:
        """The default schedule."""
        return self.tile.schedule()

    @property
    def load_elements(self) -> int:
        """Elements in which pitches and batch strides of A and B are counted."""
        return 1 if self.load == "tma" else int(self.load) // ITEM_BYTES[self.dtype]

    @property
    def store_elements(self) -> int:
        """Elements in which pitch and batch stride of C are counted."""
        return 1 if self.store == "tma" else int(self.store) // ITEM_BYTES[self.out_dtype]


def variant_of(problem: Problem, target: Target) -> Variant:
    """The kernel for a matmul on a target.

    8-bit operands reach wgmma only with K contiguous in both (A row-major, B transposed); the other layouts run on
    mma.sync, which the kernel's name says.
    """
    p = problem
    item, out_item = ITEM_BYTES[p.dtype], ITEM_BYTES[p.out_dtype]
    fma = p.dtype == "float32" and not p.tensor_cores
    load = "tma" if target.has_tma and not fma and p.align == 16 else str(p.width)
    aligned = p.n * out_item % 16 == 0
    store = ("tma" if target.has_tma and not fma else "16") if aligned else str(out_item)
    k_major = p.transpose_b and not p.transpose_a
    wgmma = target.has_wgmma and (item == 2 or (item == 1 and k_major))
    unit = "fma" if fma else "wgmma" if wgmma else "mma"
    tile = pick(tiles_of(unit, target, load, item, wgmma), target, p.m, p.n, p.batch)
    return Variant(
        unit, p.dtype, p.out_dtype, p.transpose_a, p.transpose_b, load, store, p.bias_dtype, p.activation, tile
    )
