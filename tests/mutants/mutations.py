"""The single edits: each takes a PTX and the line of a statement, and gives the edit, or None where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ptx_text import Edit, Ptx, Statement, registers

from tilewright import vgpu
from tilewright.vgpu.ptx.source import source_chains

Mutation = Callable[[Ptx, int, Statement], Edit | None]
MUTATIONS: dict[str, Mutation] = {}
DROPPED = "// dropped"


@dataclass(frozen=True)
class Mutant:
    """A kernel with one edit. ``line`` is the PTX line, from 1; ``source`` the line of the kernel's own source."""

    kernel: str
    kind: str
    ordinal: int
    line: int
    statement: str
    source: str
    text: str

    @property
    def name(self) -> str:
        """Stable as long as the compiler emits the same statements: kernel, kind, and which of them it is."""
        return f"{self.kernel} {self.kind} {self.ordinal}"


def mutation(kind: str) -> Callable[[Mutation], Mutation]:
    """Enters a mutation under its kind."""

    def enter(function: Mutation) -> Mutation:
        assert kind not in MUTATIONS
        MUTATIONS[kind] = function
        return function

    return enter


def mutants_of(kernel: str, ptx: str) -> Iterator[Mutant]:
    """Every mutant of a kernel's PTX, kind by kind, in the order of its lines."""
    text, module = Ptx(ptx), vgpu.parse(ptx)
    (function,) = (f for f in module.functions.values() if f.entry)
    places = source_chains(function, module.files, [n + 1 for n in text.statements])
    for kind, edit_of in MUTATIONS.items():
        ordinal = 0
        for line, statement in text.statements.items():
            edit = edit_of(text, line, statement)
            if edit is None:
                continue
            chain = places[line + 1]
            source = f"{chain[-1].file.rsplit('/', 1)[-1]}:{chain[-1].line}" if chain else ""
            yield Mutant(kernel, kind, ordinal, line + 1, str(statement), source, text.edited(edit))
            ordinal += 1


def _drop(line: int) -> Edit:
    return {line: DROPPED}


def _changed(line: int, s: Statement, position: int, change: str) -> Edit:
    """The operand goes through ``change`` (an instruction with one more operand), in a register of its own."""
    opcode, value = change.split()
    operands = list(s.operands)
    compute = f".reg .b32 %mutant; {opcode} %mutant, {operands[position]}, {value};"
    operands[position] = "%mutant"
    return {line: f"{compute} {s.replaced(operands=tuple(operands))}"}


# --- barriers of a block ------------------------------------------------------------------------------------------
def _is_barrier(s: Statement) -> bool:
    return s.has("bar.sync") or s.has("barrier.sync")


@mutation("barrier dropped")
def barrier_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """``bar.sync`` is not there."""
    return _drop(line) if _is_barrier(s) else None


@mutation("barrier of a warp")
def barrier_of_a_warp(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """``bar.sync`` only lets the lanes of each warp meet."""
    return {line: "bar.warp.sync 0xffffffff;"} if _is_barrier(s) else None


@mutation("barrier of 64")
def barrier_of_64(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """``bar.sync`` is complete with any 64 threads."""
    return {line: s.replaced(operands=(s.operands[0], "64"))} if _is_barrier(s) else None


@mutation("cluster barrier dropped")
def cluster_barrier_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """One half of a cluster barrier, the arrival or the wait, is not there."""
    return _drop(line) if s.has("barrier.cluster") else None


@mutation("cluster barrier relaxed")
def cluster_barrier_relaxed(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """The arrival at a cluster barrier releases nothing."""
    if not s.has("barrier.cluster.arrive", "release"):
        return None
    return {line: s.replaced(s.opcode.replace(".release", ".relaxed"))}


# --- mbarriers ----------------------------------------------------------------------------------------------------
def _is_wait(s: Statement) -> bool:
    return s.has("mbarrier.try_wait") or s.has("mbarrier.test_wait")


@mutation("wait dropped")
def wait_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """Nothing waits for the phase of an mbarrier: the test and both jumps of its loop are not there."""
    if not _is_wait(s):
        return None
    jumps = [n for n in sorted(ptx.statements) if n > line][:2]
    assert all(ptx.statements[n].has("bra") for n in jumps)
    return dict.fromkeys((line, *jumps), DROPPED)


@mutation("parity shifted")
def parity_shifted(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """A wait for the other phase of an mbarrier."""
    return _changed(line, s, 2, "xor.b32 1") if _is_wait(s) and s.has(s.opcode.split(".shared")[0], "parity") else None


@mutation("arrival dropped")
def arrival_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """An arrival on an mbarrier that expects no bytes is not there."""
    plain = s.has("mbarrier.arrive") and not s.has("mbarrier.arrive.expect_tx")
    return _drop(line) if plain or s.has("cp.async.mbarrier.arrive") else None


@mutation("arrival too early")
def arrival_too_early(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """An arrival for copies of the thread does not wait for them."""
    if not s.has("cp.async.mbarrier.arrive"):
        return None
    return {line: f"{s.guard} mbarrier.arrive.shared::cta.b64 _, {s.operands[0]};"}


@mutation("one arrival more")
def one_arrival_more(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """An mbarrier waits for one arrival that nobody makes."""
    return _changed(line, s, 1, "add.s32 1") if s.has("mbarrier.init") else None


@mutation("one arrival less")
def one_arrival_less(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """An mbarrier does not wait for the last arrival."""
    return _changed(line, s, 1, "add.s32 -1") if s.has("mbarrier.init") else None


def _expected_bytes(s: Statement) -> int | None:
    """The position of the bytes that a statement makes an mbarrier expect."""
    if s.has("mbarrier.expect_tx"):
        return 1
    return 2 if s.has("mbarrier.arrive.expect_tx") else None


@mutation("expected bytes dropped")
def expected_bytes_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """An mbarrier expects no bytes of a transfer."""
    if _expected_bytes(s) is None:
        return None
    if s.has("mbarrier.expect_tx"):
        return _drop(line)
    return {line: s.replaced(s.opcode.replace(".expect_tx", ""), s.operands[:2])}


@mutation("expected bytes halved")
def expected_bytes_halved(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """An mbarrier expects half of the bytes of a transfer."""
    position = _expected_bytes(s)
    return None if position is None else _changed(line, s, position, "shr.u32 1")


@mutation("expected bytes plus 16")
def expected_bytes_plus_16(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """An mbarrier expects bytes that nothing transfers."""
    position = _expected_bytes(s)
    return None if position is None else _changed(line, s, position, "add.s32 16")


# --- fences -------------------------------------------------------------------------------------------------------
@mutation("proxy fence dropped")
def proxy_fence_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """Generic writes do not become visible to the async proxy."""
    return _drop(line) if s.has("fence.proxy") else None


@mutation("mbarrier_init fence dropped")
def mbarrier_init_fence_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """Fresh mbarriers do not become visible to other blocks through a relaxed arrival."""
    return _drop(line) if s.has("fence.mbarrier_init") else None


@mutation("fence dropped")
def fence_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """A memory fence is not there."""
    plain = s.has("fence") and not s.has("fence.proxy") and not s.has("fence.mbarrier_init")
    return _drop(line) if plain or s.has("membar") else None


@mutation("fence of the block")
def fence_of_the_block(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """A memory fence of the device or the cluster only orders for threads of its own block."""
    for scope in (".gpu", ".cluster", ".sys", ".gl"):
        if (s.has("fence.acq_rel") or s.has("fence.sc") or s.has("membar")) and s.opcode.endswith(scope):
            return {line: s.replaced(s.opcode.removesuffix(scope) + ".cta")}
    return None


@mutation("order relaxed")
def order_relaxed(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """A releasing or acquiring access is relaxed."""
    if s.opcode.split(".")[0] not in ("ld", "st", "atom", "red", "mbarrier"):
        return None
    for order in (".release", ".acquire", ".acq_rel"):
        if order in s.opcode:
            return {line: s.replaced(s.opcode.replace(order, ".relaxed"))}
    return None


# --- groups of asynchronous operations ----------------------------------------------------------------------------
def _is_group_wait(s: Statement) -> bool:
    return any(s.has(p) for p in ("cp.async.wait_group", "cp.async.bulk.wait_group", "wgmma.wait_group"))


@mutation("group wait dropped")
def group_wait_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """Nothing waits for groups of cp.async, bulk copies or wgmma."""
    return _drop(line) if _is_group_wait(s) or s.has("cp.async.wait_all") else None


@mutation("group wait of one less")
def group_wait_of_one_less(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """A wait leaves one more group in flight."""
    if s.has("cp.async.wait_all"):
        return {line: "cp.async.wait_group 1;"}
    if not _is_group_wait(s):
        return None
    return {line: s.replaced(operands=(str(int(s.operands[0]) + 1),))}


@mutation("bulk wait for reads")
def bulk_wait_for_reads(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """A wait for bulk stores only waits until their sources are read."""
    if not s.has("cp.async.bulk.wait_group") or s.has("cp.async.bulk.wait_group", "read"):
        return None
    return {line: s.replaced(s.opcode + ".read")}


@mutation("commit dropped")
def commit_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """Operations join the next group."""
    commits = ("cp.async.commit_group", "cp.async.bulk.commit_group", "wgmma.commit_group")
    return _drop(line) if any(s.has(p) for p in commits) else None


@mutation("wgmma fence dropped")
def wgmma_fence_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """wgmma may use its registers before they are written."""
    return _drop(line) if s.has("wgmma.fence") else None


# --- guards -------------------------------------------------------------------------------------------------------
@mutation("guard dropped")
def guard_dropped(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """A guarded instruction runs in every thread; a branch over guarded code is never taken."""
    if not s.guard:
        return None
    if not s.has("bra"):
        return {line: str(Statement("", s.opcode, s.operands))}
    targets = ptx.labels(s.operands[0])
    before = max((n for n in ptx.statements if n < line), default=0)
    forward = targets and min(targets) > line and not _is_wait(ptx.statements[before])
    return _drop(line) if forward else None


# --- stores across barriers ---------------------------------------------------------------------------------------
def _is_store(s: Statement) -> bool:
    return s.has("st.shared") or s.has("stmatrix") or s.has("st.global") or s.has("st.volatile.shared")


@mutation("store behind the barrier")
def store_behind_the_barrier(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """The last store in front of a barrier moves behind it."""
    if not _is_barrier(s):
        return None
    stores = [n for n in ptx.statements if n < line and _is_store(ptx.statements[n]) and ptx.same_block(n, line)]
    return {stores[-1]: DROPPED, line: f"{s} {ptx.statements[stores[-1]]}"} if stores else None


@mutation("store before the barrier")
def store_before_the_barrier(ptx: Ptx, line: int, s: Statement) -> Edit | None:
    """The first store behind a barrier moves in front of it, where its registers are known there already."""
    if not _is_barrier(s):
        return None
    stores = [n for n in ptx.statements if n > line and _is_store(ptx.statements[n]) and ptx.same_block(line, n)]
    if not stores:
        return None
    store = ptx.statements[stores[0]]
    between = [t for n, t in ptx.statements.items() if line < n < stores[0] and t.operands]
    written = {register for t in between for register in registers(t.operands[0])}
    if written & registers(" ".join((store.guard, *store.operands))):
        return None
    return {stores[0]: DROPPED, line: f"{store} {s}"}
