"""Decoders of ``ld st ldu atom red mapa getctarank`` and of prefetches."""

from __future__ import annotations

from .plan import Opcode, Plan, decoder

_SPACES = {
    "global": "global",
    "const": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared",
    "local": "local",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
}
SPACE_NUMBER = {"global": 0, "shared": 1, "local": 2, "param": 3, "generic": 4}
_TYPES = {
    **{f"{k}{b}": b // 8 for k in "bsu" for b in (8, 16, 32, 64)},
    "f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "f32": 4, "f64": 8,
}  # fmt: skip
_CACHES = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
    "L1::evict_last", "L1::no_allocate", "L2::evict_last", "L2::evict_first",
    "L2::evict_normal", "L2::64B", "L2::128B", "L2::256B",
)  # fmt: skip
# The engine runs memory instructions one after another, which is stronger than every one of these orders and scopes.
_ORDERS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")
_SCOPES = ("cta", "cluster", "gpu", "sys")


def _take_space(op: Opcode) -> str:
    return _SPACES[name] if (name := op.choose(_SPACES, "")) else "generic"


def _vector(op: Opcode, shape: str) -> int:
    count = int(op.choose(("v2", "v4", "v8"), "v1")[1:])
    if shape[0] == "v" and int(shape[1:]) != count:
        raise op.refuse(f"has a vector of {shape[1:]} elements")
    return count


def _operand(t: str, size: int, count: int, role: str) -> str:
    # f32 keeps its literals; everything else is bits of any register wide enough.
    name = t if t in ("f32", "f64") else f"b{8 * size}"
    return f"{role}:{name}?*{count}"


@decoder("ld", "ldu")
def decode_ld(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Loads."""
    op.drop(*_ORDERS, *_SCOPES, *_CACHES)
    hint = op.flag("L2::cache_hint")
    space = _take_space(op)
    count = _vector(op, shape[0])
    t = op.choose(_TYPES)
    op.finish()
    size = _TYPES[t]
    operands = (_operand(t, size, count, "w"), "addr") + (("r:b64",) if hint else ())
    return Plan(f"ld.{space}", operands, (size, int(t[0] == "s"), count))


@decoder("st")
def decode_st(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Stores."""
    op.drop(*_ORDERS, *_SCOPES, *_CACHES)
    hint = op.flag("L2::cache_hint")
    space = _take_space(op)
    count = _vector(op, shape[1])
    t = op.choose(_TYPES)
    op.finish()
    if space == "param":
        raise op.refuse("writes a kernel parameter")
    size = _TYPES[t]
    operands = ("addr", _operand(t, size, count, "r")) + (("r:b64",) if hint else ())
    return Plan(f"st.{space}", operands, (size, count))


_INTEGERS = ("s32", "u32", "s64", "u64")
_INTEGER_OPS = {"add": _INTEGERS, "min": _INTEGERS, "max": _INTEGERS, "inc": ("u32",), "dec": ("u32",)}
_BIT_OPS = ("and", "or", "xor", "exch", "cas")
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def _atomic_type(op: Opcode, kind: str) -> str:
    if kind in _BIT_OPS:
        return op.choose(("b16", "b32", "b64") if kind == "cas" else ("b32", "b64"))
    floats = (*_HALVES, "f32", "f64") if kind == "add" else _HALVES if kind in ("min", "max") else ()
    return op.choose((*_INTEGER_OPS[kind], *floats))


def _decode_atomic(op: Opcode, shape: tuple[str, ...], returns: bool) -> Plan:
    op.drop(*_ORDERS, *_SCOPES)
    hint = op.flag("L2::cache_hint")
    space = _take_space(op)
    kind = op.choose((*_INTEGER_OPS, *_BIT_OPS))
    count = _vector(op, shape[-1 - int(hint)])
    t = _atomic_type(op, kind)
    ftz = op.choose(("noftz",), "")
    op.finish()
    if ftz and t not in _HALVES:
        raise op.refuse("has .noftz")
    size = _TYPES[t]
    name = t if t in ("f32", "f64") else f"b{8 * size}"
    value = f"r:{name}*{count}"
    result = (f"w:{name}*{count}",) if returns else ()
    values = (value, value) if kind == "cas" else (value,)
    return Plan(
        f"atom.{kind}.{t}",
        (*result, "addr", *values) + (("r:b64",) if hint else ()),
        (SPACE_NUMBER[space], count),
        sinks=() if returns else (f"w:{name}",) * count,
    )


@decoder("atom")
def decode_atom(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Atomic operations that return the old value."""
    return _decode_atomic(op, shape, True)


@decoder("red")
def decode_red(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Atomic operations without a result."""
    if "async" in op.rest:
        raise op.refuse("is not run")
    return _decode_atomic(op, shape, False)


@decoder("mapa")
def decode_mapa(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Address in the shared memory of another block of the cluster."""
    op.drop("shared::cluster")
    t = op.choose(("u32", "u64"))
    op.finish()
    return Plan(f"mapa.{t[1:]}", (f"w:{t}", f"r:{t}", "r:u32"))


@decoder("getctarank")
def decode_getctarank(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Rank of the block that owns a shared address."""
    op.drop("shared::cluster")
    t = op.choose(("u32", "u64"))
    op.finish()
    return Plan("getctarank", ("w:u32", f"r:{t}"), (int(t == "u64"),))


@decoder("prefetch", "prefetchu", "applypriority", "discard")
def decode_prefetch(op: Opcode, shape: tuple[str, ...]) -> Plan:
    """Hints without an effect here; ``discard`` leaves the bytes as they are, which its rules allow."""
    op.drop(
        "L1", "L2", "global", "local", "const", "param", "tensormap", "L2::evict_last", "L2::evict_normal", "L2::128B"
    )
    op.finish()
    return Plan("nop", ("addr", *("imm",) * (len(shape) - 1)))
