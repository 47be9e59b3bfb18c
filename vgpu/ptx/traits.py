"""What the optional checks must know of an opcode spelling: memory order, scope, class and FLOPs."""

from __future__ import annotations

import re

ORDERS = {"weak": 0, "relaxed": 1, "acquire": 2, "release": 3, "acq_rel": 4, "sc": 5, "volatile": 1, "mmio": 1}
SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}
CLASSES = (
    "control", "integer", "float", "convert", "move", "load", "store", "atomic", "copy", "matrix", "barrier", "warp",
)  # fmt: skip
FLOP_UNITS = ("mma", "wgmma", "fma")
_FENCE, _PER_WARP, _UNIT = 1 << 5, 1 << 6, 7
_ROOTS = {
    **dict.fromkeys(("ld", "ldu", "ldmatrix"), "load"),
    **dict.fromkeys(("st", "stmatrix"), "store"),
    **dict.fromkeys(("atom", "red"), "atomic"),
    **dict.fromkeys(("mma", "wgmma", "wmma", "tcgen05"), "matrix"),
    **dict.fromkeys(("bar", "barrier", "mbarrier", "fence", "membar", "griddepcontrol"), "barrier"),
    **dict.fromkeys(("shfl", "vote", "match", "redux", "elect", "activemask"), "warp"),
    **dict.fromkeys(("mov", "mapa", "cvta", "prmt", "selp", "getctarank", "movmatrix"), "move"),
    **dict.fromkeys(("cp", "prefetch", "prefetchu", "tensormap"), "copy"),
    "cvt": "convert",
    **dict.fromkeys(
        ("bra", "brx", "call", "ret", "exit", "trap", "brkpt", "nanosleep", "setmaxnreg", "pmevent", "createpolicy"),
        "control",
    ),
}
_FLOATS = {"f16": 1, "bf16": 1, "f32": 1, "f64": 1, "f16x2": 2, "bf16x2": 2, "f32x2": 2}
_FLOPS = {"fma": 2, "mad": 2, **dict.fromkeys(("add", "sub", "mul", "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2"), 1)}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def _order(root: str, words: list[str]) -> int:
    for word in words:
        if word in ORDERS:
            return ORDERS[word]
    return ORDERS["relaxed"] if root in ("atom", "red") else ORDERS["acq_rel"] if root in ("fence", "membar") else 0


def _scope(root: str, words: list[str]) -> int:
    if root == "membar":
        return SCOPES["cta" if "cta" in words else "gpu" if "gl" in words else "sys"]
    if "volatile" in words or "mmio" in words:
        return SCOPES["sys"]  # PTX ISA, "Operations on memory": volatile is treated as relaxed of system scope
    return next((SCOPES[w] for w in words if w in SCOPES), SCOPES["cta" if root in ("bar", "mbarrier") else "gpu"])


def _flops(root: str, words: list[str], text: str) -> tuple[int, int, bool]:
    """FLOPs, index of their unit in ``FLOP_UNITS``, and whether they are those of a warp (else of a lane)."""
    if root in ("mma", "wgmma", "wmma"):
        m = _SHAPE.search(text)
        if m is None or (root == "wgmma" and "mma_async" not in words) or (root == "wmma" and words[0] != "mma"):
            return 0, 0, True
        rows, columns, depth = map(int, m.groups())
        return 2 * rows * columns * depth // (4 if root == "wgmma" else 1), int(root == "wgmma"), True
    width = next((_FLOATS[w] for w in reversed(words) if w in _FLOATS), 0)
    return width * _FLOPS.get(root, 0), 2, False


def _class(root: str, words: list[str]) -> str:
    if root == "wmma" and words[0] in ("load", "store"):
        return words[0]
    found = _ROOTS.get(root)
    if found is not None:
        return found
    return "float" if any(w in _FLOATS for w in words) else "integer"


def traits_of(opcode: str) -> int:
    """The traits word of a spelling: order (bits 0-2), scope (3-4), fence (5), FLOPs a warp (6), class (8-15), FLOPs
    (16-36), unit (37-38).
    """
    root, *words = opcode.split(".")
    if root == "wgmma" and "mma_async" not in words:
        return CLASSES.index("barrier") << 8
    fence = root in ("membar", "fence") and "proxy" not in words
    flops, unit, per_warp = _flops(root, words, opcode)
    order = 0 if "proxy" in words else _order(root, words)
    return (
        order | _scope(root, words) << 3 | (_FENCE if fence else 0) | (_PER_WARP if per_warp else 0)
        | CLASSES.index(_class(root, words)) << 8 | flops << 16 | unit << 37
    )  # fmt: skip


def class_of(traits: int) -> str:
    """The class of instructions, one of ``CLASSES``."""
    return CLASSES[traits >> 8 & 0xFF]


def flops_of(traits: int, runs: int, lanes: int) -> tuple[str, int]:
    """Unit and FLOPs of an instruction that ran ``runs`` times in ``lanes`` threads."""
    each = traits >> 16 & 0x1FFFFF
    return FLOP_UNITS[traits >> 37 & 3], each * (runs if traits & _PER_WARP else lanes)
