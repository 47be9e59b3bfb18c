"""The statements of a PrimFunc as an immutable tree of entries: grids, buffers, loops, operations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import SourceSpan

from ._tilelang import tirx
from .dtypes import dtype_name, parsed
from .operations import Operation, buffer_shape, extent_of, is_call, operation_of
from .spans import buffer_span, place, stmt_span
from .tiles import OPEN_SCOPE

PARALLEL, UNROLLED, VECTORIZED, THREAD_BINDING = 1, 3, 2, 4
DEFAULT_THREADS = (128, 1, 1)  # what TileLang launches where T.Kernel has no threads=
_KINDS = {0: "serial", PARALLEL: "parallel", VECTORIZED: "vectorized", UNROLLED: "unrolled", THREAD_BINDING: "thread"}


@dataclass(frozen=True, eq=False)
class Grid:
    """A launch: block axes by variable, threads per block, and the annotations of its root block."""

    axes: tuple[tuple[str, int | str], ...]
    threads: tuple[int | str, ...]
    annotations: Mapping[str, object]

    @property
    def thread_count(self) -> int | None:
        """Threads per block, None when not constant."""
        if all(isinstance(extent, int) for extent in self.threads):
            return math.prod(extent for extent in self.threads if isinstance(extent, int))
        return None


@dataclass(frozen=True, eq=False)
class BufferInfo:
    """An allocation: scope, dtype and shape; ``nbytes`` is None for a symbolic shape."""

    scope: str
    dtype: str
    shape: tuple[int | str, ...]
    nbytes: int | None


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop nest: ``kind`` serial, pipelined, parallel, unrolled, vectorized, thread or while."""

    kind: str
    axes: tuple[tuple[str, int | str], ...]
    annotations: Mapping[str, object]

    @property
    def stages(self) -> int | None:
        """Pipeline depth, None when the loop is not pipelined."""
        depth = self.annotations.get("num_stages")
        return int(depth) if isinstance(depth, (int, tirx.IntImm)) else None


Detail = Grid | BufferInfo | Loop | Operation | None


@dataclass(frozen=True, eq=False)
class Entry:
    """One named thing of a program.

    Attributes:
        label: the handle, unique within its kind; duplicates end in ``#2``, ``#3``.
        kind: ``grid``, ``buffer``, ``loop``, ``op``, ``store``, ``let``, ``if`` or ``attribute``.
        node: the TIR statement, or the TIR buffer; what a rewrite looks for.
        span: where it stands in the user's source.
        names: other names that ``Outline.find`` accepts when they are unique.
    """

    label: str
    kind: str
    node: Any
    span: SourceSpan | None
    detail: Detail = None
    text: str = ""
    children: tuple[Entry, ...] = ()
    names: tuple[str, ...] = ()

    def walk(self) -> Iterator[Entry]:
        """This entry and all below it, in program order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass
class _Labels:
    """Numbers duplicates in program order."""

    seen: dict[tuple[str, str], int] = field(default_factory=dict)

    def unique(self, kind: str, label: str) -> str:
        group = "op" if kind in ("op", "store", "loop") else kind
        count = self.seen.get((group, label), 0) + 1
        self.seen[(group, label)] = count
        return label if count == 1 else f"{label}#{count}"


def entries_of(func: Any) -> tuple[Entry, ...]:
    """The entries of a function's body, in program order."""
    return tuple(_children(func.body, _Labels()))


def annotations_of(node: Any) -> dict[str, object]:
    """A node's annotations by name."""
    return {str(key): value for key, value in node.annotations.items()}


def is_launch_root(block: Any) -> bool:
    """Whether a block is the root block of a launch."""
    return str(block.name_hint) == "tilelang_root"


def launch_threads(block: Any) -> tuple[int | str, ...] | None:
    """The threads a root block launches, None when it is no launch."""
    if not is_launch_root(block):
        return None
    extents = block.annotations.get("tl.launch_threads")
    return DEFAULT_THREADS if extents is None else tuple(extent_of(extent) for extent in extents)


def _children(stmt: Any, labels: _Labels) -> Iterator[Entry]:
    if isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq:
            yield from _children(part, labels)
    elif isinstance(stmt, tirx.SBlockRealize):
        yield from _children(stmt.block, labels)
    elif isinstance(stmt, tirx.SBlock):
        yield from _block(stmt, labels)
    elif isinstance(stmt, tirx.For):
        yield from _for(stmt, labels)
    else:
        entry = _leaf(stmt, labels) or _branch(stmt, labels)
        if entry is not None:
            yield entry


def _block(block: Any, labels: _Labels) -> Iterator[Entry]:
    for buffer in block.alloc_buffers:
        yield _buffer(buffer, labels)
    yield from _children(block.body, labels)


def _buffer(buffer: Any, labels: _Labels) -> Entry:
    shape, dtype, scope = buffer_shape(buffer), dtype_name(buffer.dtype), str(buffer.scope())
    info = BufferInfo(scope, dtype, shape, byte_count(dtype, shape))
    size = "" if info.nbytes is None else f" {info.nbytes} B"
    text = f"{'open' if scope == OPEN_SCOPE else scope} {dtype}[{', '.join(map(str, shape))}]{size}"
    return Entry(labels.unique("buffer", str(buffer.name)), "buffer", buffer, place(buffer_span(buffer)), info, text)


def byte_count(dtype: str, shape: tuple[int | str, ...]) -> int | None:
    """Bytes of a dense array, None for a symbolic shape; sub-byte dtypes are packed."""
    extents = [extent for extent in shape if isinstance(extent, int)]
    if len(extents) < len(shape):
        return None
    element = parsed(dtype)
    return (math.prod(extents) * int(element.bits) * max(1, int(element.lanes)) + 7) // 8


def _for(loop: Any, labels: _Labels) -> Iterator[Entry]:
    if loop.thread_binding is not None and str(loop.thread_binding.thread_tag).startswith("blockIdx"):
        yield _grid(loop, labels)
    elif int(loop.kind) == PARALLEL:
        yield _parallel(loop, labels)
    else:
        annotations = annotations_of(loop)
        kind = "pipelined" if "num_stages" in annotations else _KINDS[int(loop.kind)]
        variable = str(loop.loop_var.name)
        detail = Loop(kind, ((variable, extent_of(loop.extent)),), annotations)
        depth = f", {detail.stages} stages" if detail.stages is not None else ""
        label = labels.unique("loop", variable)
        text = f"{kind} {_range(loop)}{depth}"
        children = tuple(_children(loop.body, labels))
        yield Entry(label, "loop", loop, place(stmt_span(loop)), detail, text, children, (variable,))


def _range(loop: Any) -> str:
    begin, extent = extent_of(loop.min), extent_of(loop.extent)
    return f"{extent}" if begin == 0 else f"{extent} from {begin}"


def _grid(loop: Any, labels: _Labels) -> Entry:
    axes: list[tuple[str, int | str]] = []
    inner = loop
    while isinstance(inner, tirx.For) and inner.thread_binding is not None:
        axes.append((str(inner.loop_var.name), extent_of(inner.extent)))
        inner = inner.body
    block = _root_block(inner)
    annotations = {} if block is None else annotations_of(block)
    threads = () if block is None else launch_threads(block) or ()
    text = ", ".join(f"{name} = {extent}" for name, extent in axes)
    detail = Grid(tuple(axes), threads, annotations)
    count = detail.thread_count
    text += f"; {count if count is not None else ' x '.join(map(str, threads))} threads"
    label = labels.unique("grid", "grid")
    children = tuple(child for child in _children(inner, labels) if not _launch_index(child))
    return Entry(label, "grid", loop, place(stmt_span(loop)), detail, text, children, tuple(name for name, _ in axes))


def _root_block(stmt: Any) -> Any:
    """The root block right under the grid loops."""
    parts = stmt.seq if isinstance(stmt, tirx.SeqStmt) else [stmt]
    for part in parts:
        if isinstance(part, tirx.SBlockRealize) and is_launch_root(part.block):
            return part.block
    return None


def _launch_index(entry: Entry) -> bool:
    value = getattr(entry.node, "value", None) if entry.kind == "let" else None
    return isinstance(value, tirx.Call) and str(value.op.name) == "tl.launch_thread_idx"


def _parallel(loop: Any, labels: _Labels) -> Entry:
    axes: list[tuple[str, int | str]] = []
    inner = loop
    while isinstance(inner, tirx.For) and int(inner.kind) == PARALLEL:
        axes.append((str(inner.loop_var.name), extent_of(inner.extent)))
        inner = inner.body
    written = written_buffers(inner)
    label = labels.unique("loop", f"parallel {written[0]}" if written else "parallel")
    text = ", ".join(f"{name} = {extent}" for name, extent in axes)
    detail = Loop("parallel", tuple(axes), annotations_of(loop))
    names = ("parallel", *(name for name, _ in axes), *written)
    return Entry(label, "loop", loop, place(stmt_span(loop)), detail, text, (), names)


def written_buffers(stmt: Any) -> list[str]:
    """Names of the buffers a statement writes, in order of their first write."""
    written: dict[str, None] = {}

    def visit(node: Any) -> None:
        if isinstance(node, tirx.BufferStore):
            written.setdefault(str(node.buffer.name))
        elif _writes_through_pointer(node):
            written.setdefault(str(node.args[0].buffer.name))

    tirx.stmt_functor.post_order_visit(stmt, visit)
    return list(written)


def _writes_through_pointer(node: Any) -> bool:
    named = isinstance(node, tirx.Call) and str(getattr(node.op, "name", "")) == "tl.access_ptr"
    return named and bool(int(node.args[2]) & 2)


def _leaf(stmt: Any, labels: _Labels) -> Entry | None:
    if is_call(stmt):
        operation = operation_of(stmt.value)
        label = labels.unique("op", operation.label)
        names = (operation.name, *dict.fromkeys(region.name for region in operation.regions if "w" in region.access))
        return Entry(label, "op", stmt, place(stmt_span(stmt)), operation, _describe(operation), (), names)
    if isinstance(stmt, tirx.BufferStore):
        name = str(stmt.buffer.name)
        label = labels.unique("store", f"store {name}")
        text = f"{name}[{', '.join(map(str, stmt.indices))}] = {stmt.value}"
        return Entry(label, "store", stmt, place(stmt_span(stmt)), None, _short(text), (), ("store", name))
    if isinstance(stmt, tirx.Bind):
        label = labels.unique("let", f"let {stmt.var.name}")
        return Entry(
            label, "let", stmt, place(stmt_span(stmt)), None, _short(str(stmt.value)), (), (str(stmt.var.name),)
        )
    return None


def _branch(stmt: Any, labels: _Labels) -> Entry | None:
    where = place(stmt_span(stmt))
    if isinstance(stmt, tirx.IfThenElse):
        label = labels.unique("if", "if")
        children = tuple(_children(stmt.then_case, labels))
        if stmt.else_case is not None:
            children += tuple(_children(stmt.else_case, labels))
        return Entry(label, "if", stmt, where, None, _short(str(stmt.condition)), children)
    if isinstance(stmt, tirx.While):
        label = labels.unique("loop", "while")
        children = tuple(_children(stmt.body, labels))
        return Entry(label, "loop", stmt, where, Loop("while", (), {}), _short(str(stmt.condition)), children)
    if isinstance(stmt, tirx.AttrStmt):
        label = labels.unique("attribute", str(stmt.attr_key))
        text = _short(str(stmt.value))
        return Entry(label, "attribute", stmt, where, None, text, tuple(_children(stmt.body, labels)))
    return None


def _describe(operation: Operation) -> str:
    operands = ", ".join(map(str, operation.regions))
    if operation.name.startswith(("gemm", "wgmma_gemm", "tcgen05_gemm")):
        m, n, k = operation.values[2:5]
        flags = "".join(f", {side}^T" for side, flag in zip("AB", operation.values[:2], strict=True) if flag is True)
        return f"{operands}: {m}x{n}x{k}{flags}"
    if operation.name.startswith("reduce_"):
        return f"{operands}: dim {operation.values[1]}" + ("" if operation.values[2] else ", accumulating")
    if len(operation.regions) == 2:
        extents = operation.regions[-1].extents
        return f"{operands}: {'x'.join(map(str, extents))}"
    return operands


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 72 else line[:69] + "..."
