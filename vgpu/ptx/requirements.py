"""Which architecture a spelling needs: one table of opcodes and modifiers (PTX ISA 9.0, "Target ISA Notes")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

# The newest architecture whose instructions the virtual GPU runs.
NEWEST = 90


@dataclass(frozen=True)
class Need:
    """An architecture: at least ``arch``, or with ``exact`` the architecture-specific target alone (``sm_90a``)."""

    arch: int
    exact: bool = False

    def __str__(self) -> str:
        return f"sm_{self.arch}a" if self.exact else f"sm_{self.arch} or newer"

    def met_by(self, target: str) -> bool:
        """Whether ``target`` (``sm_80``, ``sm_90a`` ...) has it."""
        return target == f"sm_{self.arch}a" if self.exact else int(target[3:].rstrip("af")) >= self.arch


_SM89, _SM90, _SM90A, _SM100 = Need(89), Need(90), Need(90, exact=True), Need(100)
_BF16 = r"bf16(x2)?"
# First match wins; a spelling that none matches runs on every architecture from sm_80 on.
_TABLE: tuple[tuple[str, Need], ...] = (
    # tensor memory, packed f32, mixed precision and narrow formats of later architectures
    (r"tcgen05\..*", Need(100, exact=True)),
    (r"(add|sub|mul|fma)(\.\w+)*\.f32x2", _SM100),
    (r"(add|sub|fma)(\.\w+)*\.f32\.b?f16", _SM100),
    (r"cvt(\.\w+)*\.(rs|e2m1x2|e2m3x2|e3m2x2|ue8m0x2|e[245]m[123]x4)(\.\w+)*", Need(100, exact=True)),
    (r"mma(\.[\w:]+)*\.(kind::\w+|block_scale)(\.[\w:]+)*", Need(120, exact=True)),
    (r"ldmatrix(\.[\w:]+)*\.(m16n16|m8n16|b8|b4x16_p64|b6x16_p32|b8x16(\.\w+)*)(\.[\w:]+)*", Need(100, exact=True)),
    (r"stmatrix(\.[\w:]+)*\.(m16n8|b8)(\.[\w:]+)*", Need(100, exact=True)),
    # matrix instructions
    (r"wgmma\..*", _SM90A),
    (r"stmatrix\..*", _SM90),
    (r"mma(\.[\w:]+)*\.m16n8k(4|8|16)(\.\w+)*\.f64(\.\w+)*", _SM90),
    (r"mma(\.[\w:]+)*\.(e4m3|e5m2)(\.\w+)*", _SM89),
    # memory and control
    (r"setmaxnreg\..*", _SM90A),
    (r"(ld|st|atom|red|fence|isspacep|cvta|mbarrier)(\.[\w:]+)*\.(cluster|shared::cluster)(\.[\w:]+)*", _SM90),
    (r"((st|red)\.async|cp\.async\.bulk|cp\.reduce|barrier\.cluster|tensormap|griddepcontrol)\..*", _SM90),
    (r"(mapa|getctarank|elect)\..*", _SM90),
    (r"(atom|red)(\.[\w:]+)*\.(v[248]|bf16|bf16x2|b128)(\.[\w:]+)*", _SM90),
    (r"mbarrier\.(try_wait|expect_tx|complete_tx|arrive\.expect_tx|arrive_drop\.expect_tx)\..*", _SM90),
    (r"mbarrier(\.[\w:]+)*\.relaxed(\.[\w:]+)*", _SM90),
    (r"fence\.(proxy\.(async|tensormap).*|mbarrier_init.*)", _SM90),
    (r"prefetch(\.[\w:]+)*\.tensormap", _SM90),
    # conversions
    (r"cvt\.(rn|rz)(\.\w+)*\.tf32\.f32", _SM90),
    (r"cvt(\.\w+)*\.(e4m3x2|e5m2x2)(\.\w+)*", _SM89),
    (rf"cvt\.(rn|rz|rm|rp)(\.\w+)*\.{_BF16}\.f32", Need(80)),
    (r"cvt(\.(rn|rz|rm|rp))?\.f32\.bf16", Need(80)),
    (rf"cvt(\.\w+)*\.{_BF16}(\.\w+)*", _SM90),
    (r"(min|max)(\.\w+)*\.xorsign(\.\w+)*", Need(86)),
    # bf16 and packed integer arithmetic
    (rf"(add|sub|mul|ex2|tanh|set|setp)(\.\w+)*\.{_BF16}(\.\w+)*", _SM90),
    (r"fma(\.\w+)*\.oob(\.\w+)*", _SM90),
    (r"(add|min|max)(\.\w+)*\.[su]16x2", _SM90),
    (r"(min|max)\.relu(\.\w+)*", _SM90),
)
_COMPILED = tuple((re.compile(pattern), need) for pattern, need in _TABLE)
_THREE_INPUTS = re.compile(r"(min|max)(\.\w+)*\.f32")
_COUNTED_ARRIVAL = re.compile(r"mbarrier\.arrive(_drop)?(?!\.noComplete)(\.[\w:]+)*")


@lru_cache(maxsize=4096)
def need_of(opcode: str, operands: int) -> Need | None:
    """What a spelling with this many operands needs; None when every architecture from sm_80 on has it."""
    if operands == 4 and _THREE_INPUTS.fullmatch(opcode):
        return _SM100
    if operands == 3 and _COUNTED_ARRIVAL.fullmatch(opcode):
        return _SM90
    return next((need for pattern, need in _COMPILED if pattern.fullmatch(opcode)), None)
