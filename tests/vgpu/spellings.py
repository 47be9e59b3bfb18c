"""Spellings of memory and control instructions, legal ones and others, for the assembler to judge.

Each family is every combination of its modifiers with operands that fit; most combinations are illegal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

LETTERS = {"b16": "h", "f16": "h", "bf16": "h", "u16": "h", "b8": "h", "u8": "h", "s8": "h", "s16": "h", "f32": "f"}
LETTERS |= {"f64": "g", "b128": "q", **dict.fromkeys(("b64", "u64", "s64"), "d")}
TYPES = ("b8", "u8", "s16", "b16", "b32", "u32", "f32", "b64", "s64", "f64", "b128", "f16", "bf16x2")
ORDERS = ("", "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio", "mmio.relaxed")
SCOPES = ("", "cta", "cluster", "gpu", "sys")
SPACES = ("", "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param")
CACHES = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "nc.L1::evict_last", "nc.L2::128B", "cs.nc", "L1::evict_normal",
    "L1::evict_first", "L1::evict_unchanged", "L1::no_allocate", "L2::64B", "L2::256B", "L2::evict_last",
    "L1::evict_last.L2::128B", "cg.L1::evict_last", "cs.L2::128B", "L1::no_allocate.L2::evict_first",
)  # fmt: skip
COMPLETES = "mbarrier::complete_tx::bytes"


SINGLE = """
setmaxnreg.dec.sync.aligned.u32 %r1
setmaxnreg.inc.sync.u32 24
griddepcontrol
activemask.b32 %r1
griddepcontrol.wait
griddepcontrol.launch_dependents
nanosleep.u32 20
nanosleep.u32 %r1
nanosleep.s32 20
pmevent 15
pmevent 16
pmevent.mask 65535
shfl.up.b32 %r1, %r2, 1, 0
shfl.sync.up.b32 %r1, %r2, 1, 0, -1
vote.all.pred %p1, %p2
vote.sync.all.pred %p1, %p2, -1
mapa.u64 %d1, %d2, %r3
mapa.u32 %r1, %r2, %r3
mapa.shared::cluster.u32 %r1, sm, 0
mapa.shared::cluster.u64 %d1, %d2, %r3
getctarank.u64 %r1, %d2
getctarank.u32 %r1, %d2
getctarank.shared::cluster.u32 %r1, %r2
alloca.u64 %d1, 64
alloca.u64 %d1, %d2, 24
alloca.u32 %r1, %r2, 32
alloca.b64 %d1, %d2
stacksave.u64 %d1
stacksave.b64 %d1
stackrestore.u32 %r1
mov.b128 %q1, {%d1, %d2}
mov.b128 {%d1, %d2}, %q1
mov.b128 %q1, %q2
mov.b128 {%r1, %r2, %r3, %r4}, %q1
mov.b64 %d1, %q1
add.u64 %d1, %d2, %q1
mov.u32 %r1, %clock64
mov.u64 %d1, %clock64
mov.u32 %r1, %clock_hi
mov.u32 %r1, %globaltimer_hi
isspacep.shared::cta %p1, %d1
isspacep.param::entry %p1, %d1
isspacep.param::func %p1, %d1
"""


def name(*words: str) -> str:
    """The words that are there, joined by dots."""
    return ".".join(w for w in words if w)


def register(type_: str, number: int = 1) -> str:
    """A register of a type."""
    return f"%{LETTERS.get(type_, 'r')}{number}"


def vector(type_: str, count: int) -> str:
    """``count`` registers of a type in braces."""
    return "{" + ", ".join(register(type_, k + 1) for k in range(count)) + "}"


def loads() -> Iterator[str]:
    """ld and ldu."""
    for order, scope, space in itertools.product(ORDERS, SCOPES, ("global", "shared")):
        yield f"{name('ld', order, scope, space, 'b32')} %r1, [%d1];"
    for order, space in itertools.product(("", "weak", "volatile", "relaxed.gpu", "mmio.relaxed.sys"), SPACES):
        yield f"{name('ld', order, space, 'b32')} %r1, [%d1];"
    for order, cache in itertools.product(("", "weak", "volatile", "relaxed.gpu", "acquire.cta"), CACHES):
        yield f"{name('ld', order, 'global', cache, 'b32')} %r1, [%d1];"
    for space, cache in itertools.product(("", "shared", "local", "const"), ("cg", "nc", "L1::evict_last", "L2::128B")):
        yield f"{name('ld', space, cache, 'b32')} %r1, [%d1];"
    for space, type_ in itertools.product(("global", "shared", "local", "relaxed.gpu.global"), TYPES):
        yield f"{name('ld', space, type_)} {register(type_)}, [%d9];"
    for type_, count in itertools.product(("b8", "b16", "b32", "f32", "b64", "f64", "b128"), (2, 4)):
        yield f"ld.global.v{count}.{type_} {vector(type_, count)}, [%d9];"
    for words in ("", "global", "shared", "volatile.global", "global.ca", "acquire.gpu.global", "mmio.relaxed.sys"):
        yield f"{name('ld', words, 'L2::cache_hint', 'b32')} %r1, [%d1], %d2;"
        yield f"{name('ldu', words, 'b32')} %r1, [%d1];"
    yield "ld.mmio.relaxed.sys.global.v2.b32 {%r1, %r2}, [%d1];"
    yield "ldu.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1];"


def stores() -> Iterator[str]:
    """st and st.async."""
    for order, scope, space in itertools.product(ORDERS, SCOPES, ("global", "shared")):
        yield f"{name('st', order, scope, space, 'b32')} [%d1], %r1;"
    for order, space in itertools.product(("", "weak", "volatile", "release.gpu", "mmio.relaxed.sys"), SPACES[:7]):
        yield f"{name('st', order, space, 'b32')} [%d1], %r1;"
    for order, cache in itertools.product(("", "weak", "volatile", "relaxed.gpu", "release.cta"), CACHES):
        yield f"{name('st', order, 'global', cache, 'b32')} [%d1], %r1;"
    for space, type_ in itertools.product(("global", "shared", "local"), TYPES):
        yield f"{name('st', space, type_)} [%d9], {register(type_)};"
    for type_, count in itertools.product(("b8", "b16", "b32", "f32", "b64", "f64", "b128"), (2, 4)):
        yield f"st.shared.v{count}.{type_} [%d9], {vector(type_, count)};"
    for weak, space, type_ in itertools.product(
        ("", "weak", "relaxed.cluster"), SPACES[:5], ("b32", "b64", "f32", "b16")
    ):
        yield f"{name('st.async', weak, space, COMPLETES, type_)} [%d9], {register(type_)}, [%d8];"
    for type_, count in itertools.product(("b32", "f32", "u64", "f64"), (2, 4)):
        yield f"st.async.shared::cluster.{COMPLETES}.v{count}.{type_} [%r9], {vector(type_, count)}, [%r8];"


def atomics() -> Iterator[str]:
    """atom, red and red.async."""
    operations = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
    types = ("u16", "b16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64", "f16", "bf16", "f16x2", "b128")
    for root in ("atom", "red"):
        for operation, type_ in itertools.product(operations, types):
            source = f"{register(type_, 2)}{f', {register(type_, 3)}' if operation == 'cas' else ''}"
            for exact in ("", ".noftz") if "f" in type_ else ("",):
                result = f"{register(type_)}, " if root == "atom" else ""
                yield f"{root}.global.{operation}{exact}.{type_} {result}[%d9], {source};"
        result = "%r1, " if root == "atom" else ""
        for order, scope in itertools.product(ORDERS[:9], SCOPES):
            yield f"{name(root, order, scope, 'global.add.u32')} {result}[%d9], %r2;"
        for space in SPACES:
            yield f"{name(root, space, 'add.u32')} {result}[%d9], %r2;"
            yield f"{name(root, space, 'add.L2::cache_hint.u32')} {result}[%d9], %r2, %d8;"
        for operation, exact, count, type_ in itertools.product(
            ("add", "min", "exch"), ("", "noftz"), (2, 4, 8), ("f32", "f64", "f16", "bf16x2", "u32")
        ):
            result = f"{vector(type_, count)}, " if root == "atom" else ""
            yield f"{name(root, 'global', operation, exact, f'v{count}', type_)} {result}[%d9], {vector(type_, count)};"
        result = "{%f1, %f2}, " if root == "atom" else ""
        for space in SPACES[:4]:
            yield f"{name(root, space, 'add.v2.f32')} {result}[%d9], {{%f1, %f2}};"
    for order, space in itertools.product(
        ("", "relaxed", "relaxed.cluster", "relaxed.gpu", "release.cluster"), SPACES[:5]
    ):
        yield f"{name('red.async', order, space, COMPLETES, 'add.u32')} [%d9], %r2, [%d8];"
    for operation, type_ in itertools.product(operations[:8], ("u32", "s32", "u64", "s64", "b32", "b64", "f32")):
        yield f"red.async.relaxed.cluster.{COMPLETES}.{operation}.{type_} [%d9], {register(type_, 2)}, [%d8];"


def mbarriers() -> Iterator[str]:
    """The operations on mbarriers."""
    orders = ("", "relaxed", "release", "acquire")
    for order, scope, space in itertools.product(orders, SCOPES[:4], SPACES[:5]):
        words = name(order, scope, space, "b64")
        yield f"mbarrier.arrive.{words} %d2, [%d9];"
        yield f"mbarrier.arrive.{words} _, [%d9], 2;"
        yield f"mbarrier.arrive.expect_tx.{words} _, [%d9], 4;"
        yield f"mbarrier.arrive_drop.{words} _, [%d9];"
        yield f"mbarrier.test_wait.{words} %p1, [%d9], %d2;"
        yield f"mbarrier.try_wait.parity.{words} %p1, [%d9], 0;"
        yield f"mbarrier.expect_tx.{words} [%d9], 4;"
        yield f"mbarrier.complete_tx.{words} [%d9], 4;"
        if not order and not scope:
            yield f"mbarrier.init.{words} [%d9], 4;"
            yield f"mbarrier.inval.{words} [%d9];"
            yield f"cp.async.mbarrier.arrive.noinc.{words} [%d9];"
    for operation in ("arrive", "arrive_drop", "arrive.expect_tx", "arrive.noComplete", "arrive.expect_tx.noComplete"):
        for operands in ("[%r9]", "%d1, [%r9]", "_, [%r9]", "%d1, [%r9], 2", "_, [%r9], 2", "%d1, [%r9], 2, 3"):
            yield f"mbarrier.{operation}.shared.b64 {operands};"
    for operation, state in (("test_wait", "%d1"), ("try_wait", "%d1"), ("try_wait.parity", "%r1")):
        for operands in (f"%p1, [%r9], {state}", f"%p1, [%r9], {state}, %r2", "%p1, [%r9]"):
            yield f"mbarrier.{operation}.shared.b64 {operands};"
    yield "mbarrier.pending_count.b64 %r1, %d1;"
    yield "mbarrier.pending_count.shared.b64 %r1, %d1;"


def bulk_copies() -> Iterator[str]:
    """cp.async and the bulk copies."""
    for operation, type_ in itertools.product(
        ("add", "add.noftz", "min", "max", "inc", "dec", "and", "or", "xor"),
        ("u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64"),
    ):
        yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{type_} [%d1], [%r2], %r3;"
        if type_[0] != "f" and "f16" not in type_:
            words = f"shared::cluster.shared::cta.{COMPLETES}.{operation}.{type_}"
            yield f"cp.reduce.async.bulk.{words} [%r1], [%r2], %r3, [%r4];"
    for target, source, extra in itertools.product(
        ("shared::cta", "shared::cluster"), ("global", "shared::cta"), ("", "multicast::cluster", "L2::cache_hint")
    ):
        operands = {"": "", "multicast::cluster": ", %h1", "L2::cache_hint": ", %d3"}[extra]
        base = "%d1" if source == "global" else "%r2"
        yield f"{name('cp.async.bulk', target, source, COMPLETES, extra)} [%r1], [{base}], 32, [%r3]{operands};"
    yield "cp.async.bulk.global.shared::cta [%d1], [%r1], 32;"
    for cache, size, extra in itertools.product(
        ("ca", "cg"), ("4", "8", "12", "16", "%r2"), ("", ", %p1", ", !%p1", ", %r3")
    ):
        yield f"cp.async.{cache}.shared.global [%r1], [%d1], {size}{extra};"
    yield "cp.async.ca.shared.global.L2::cache_hint.L2::128B [%r1], [%d1], 16, %p1, %d2;"
    yield "cp.async.ca.shared.global [%r1], [%d1], 16, %r3, %d2;"
    for words in ("wait_group", "bulk.wait_group", "bulk.wait_group.read", "bulk.wait_all", "wait_all", "commit_group"):
        for operands in ("", " 1", " %r1"):
            yield f"cp.async.{words}{operands};"
    yield "cp.async.bulk.prefetch.L2.global [%d1], 64;"
    yield "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%d1], %r1, %d2;"


def fences() -> Iterator[str]:
    """fence, membar and the barriers of a cluster."""
    for order, scope in itertools.product(("", "sc", "acq_rel", "acquire", "release", "relaxed"), SCOPES):
        yield f"{name('fence', order, scope)};"
        yield f"{name('fence.mbarrier_init', order, scope)};"
    for space in ("", "global", "shared", "shared::cta", "shared::cluster"):
        yield f"{name('fence.proxy.async', space)};"
    for order, scope, operands in itertools.product(("acquire", "release"), SCOPES, ("", " [%d1], 128", " [%d1], 64")):
        yield f"{name('fence.proxy.tensormap::generic', order, scope)}{operands};"
    for order, space in itertools.product(("acquire", "release"), ("cta", "cluster")):
        for kind in ("fence", "fence.proxy.async::generic"):
            yield f"{kind}.{order}.sync_restrict::shared::{space}.cluster;"
    for words in (
        "fence.proxy.alias",
        "membar",
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "membar.gpu",
        "membar.proxy.alias",
    ):
        yield f"{words};"
    for operation, order, aligned in itertools.product(
        ("arrive", "wait"), ("", "release", "relaxed", "acquire"), ("", "aligned")
    ):
        yield f"{name('barrier.cluster', operation, order, aligned)};"


def others() -> Iterator[str]:
    """Caches, addresses, register counts, sleeping and events."""
    for space, level in itertools.product(
        ("", "global", "local", "shared", "const", "param"),
        ("L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"),
    ):
        yield f"{name('prefetch', space, level)} [%d1];"
    for size, space in itertools.product((64, 128), ("", "global", "local")):
        yield f"{name('applypriority', space, 'L2::evict_normal')} [%d1], {size};"
        yield f"{name('discard', space, 'L2')} [%d1], {size};"
    for kind, first, second in itertools.product(
        ("fractional", "range", "range.global"),
        ("", "L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"),
        ("", "L2::evict_first", "L2::evict_unchanged", "L2::evict_last"),
    ):
        operands = "0.5" if kind == "fractional" else "[%d2], %r1, %r2"
        yield f"{name('createpolicy', kind, first, second, 'b64')} %d1, {operands};"
    yield "createpolicy.cvt.L2.b64 %d1, %d2;"
    yield "prefetchu.L1 [%d1];"
    yield "prefetchu.L2 [%d1];"
    for count in (0, 16, 24, 100, 104, 256, 264):
        yield f"setmaxnreg.inc.sync.aligned.u32 {count};"
    yield from (f"{line.strip()};" for line in SINGLE.splitlines() if line.strip())


FAMILIES = {f.__name__: f for f in (loads, stores, atomics, mbarriers, bulk_copies, fences, others)}
