"""Encodes a kernel and the functions it calls as an engine program."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from .. import _engine
from ..errors import UnsupportedInstruction
from .calls import CALL, addressed, reachable, takes_local_address
from .decode import plan_for, shape_of
from .operands import (
    INDEX,
    READ,
    SINK32,
    SINK64,
    VALUE,
    Encode,
    Names,
    Symbol,
    literal,
    make_encoder,
    predicate_word,
    signed_offset,
)  # fmt: skip
from .parse import TYPE_BYTES, Function, Module, Parameter, Variable, parse_variables, syntax_error
from .plan import Plan
from .requirements import NEWEST, Need, need_of
from .source import source_chain
from .traits import traits_of

_STATEMENT = re.compile(r"(?:@\s*(!?)\s*([\w%$]+)\s+)?([a-z][\w.:]*(?:\s+\.[\w:.]+)*)\s*(.*)", re.S)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s][^,]*")
_NEEDS_DEFINED = (
    "ld.",
    "st.",
    "red.",
    "atom.",
    "cp.",
    "bulk",
    "ldmatrix",
    "stmatrix",
    "mbarrier",
    "tensormap",
    "brx",
    "bar",
    "mma",
    "wgmma",
    "wmma",
)
_HANDLERS: dict[str, int] = _engine.handlers()
# Functions of the device runtime, with the bytes of their arguments.
_EXTERNALS = {"vprintf": ("call.printf", (8, 8)), "__assertfail": ("call.assert", (8, 8, 4, 8, 8))}
_MAX_LOCAL = 1 << 19
_STACK_BYTES = 16384  # of alloca, behind all other local memory (frames.h)


@dataclass(frozen=True)
class Kernel:
    """An encoded kernel, ready for launches."""

    program: _engine.Program
    entry: int
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    static_shared: int
    local_bytes: int
    directives: str
    functions: tuple[Function, ...]
    needs: tuple[tuple[Need, str, int], ...]  # architecture, opcode and PTX line of the first that needs it

    def function_at(self, line: int) -> Function:
        """The function whose body holds PTX line ``line``."""
        return max((f for f in self.functions if f.line <= line), key=lambda f: f.line, default=self.functions[0])


@dataclass
class _Compiled:
    """A plan with the encoders of its operands."""

    handler: int
    flags: int
    imms: list[int]
    front: list[int]
    encoders: list[Encode | None]
    plan: Plan


class Encoder:
    """Encodes one kernel of a module."""

    def __init__(self, module: Module, entry: Function) -> None:
        self.module = module
        self.functions = reachable(module, entry)
        self.addresses = addressed(module)
        self.symbols: dict[str, Symbol] = {}
        self.names = Names(self.symbols)
        self.code = array("q")
        self.pc = 0
        self.local_bytes = 0
        self.variables: list[Variable] = []
        self.starts: dict[str, int] = {}
        self.labels: dict[tuple[int, str], int] = {}
        self.scopes: list[int] = []
        self.scope_count = 0
        self.fixups: list[tuple[int, str, tuple[int, ...], int]] = []
        self.calls: list[tuple[int, str]] = []
        self.tables: dict[str, list[str]] = {}  # of .branchtargets and .calltargets
        self.prototypes: set[str] = set()
        self.stack = False
        self.compiled: dict[tuple[str, tuple[str, ...]], _Compiled] = {}
        self.needs: dict[Need, tuple[str, int]] = {}
        # Parameters and results of each function, and the local memory that they take.
        self.formals: dict[str, tuple[dict[str, Symbol], tuple[int, int]]] = {}
        self.ranges: list[tuple[int, int, int, int, int, list[tuple[int, int]], bool]] = []
        self.static_shared = self._place_variables()
        for name, address in self.addresses.items():
            self.symbols.setdefault(name, Symbol("code", address))
        for function in self.functions[1:]:
            start = self.local_bytes
            for p in (*function.parameters, *function.results):
                self._local(p.name, p.size, p.align, function.line)
            names = (p.name for p in (*function.parameters, *function.results))
            self.formals[function.name] = {name: self.symbols.pop(name) for name in names}, (start, self.local_bytes)

    def run(self) -> Kernel:
        """The encoded kernel."""
        entry = self.functions[0]
        for function in self.functions:
            self._function(function)
        for at, name, scopes, line in self.fixups:
            self.code[at] = self._label(name, scopes, line)
        for at, name in self.calls:
            self.code[at] = self.starts[name]
        program = _engine.make_program(
            self.code, bytes(self.names.widths), self.names.predicates, self.names.constants, self._variable_tuples(),
            self.ranges,
        )  # fmt: skip
        if self.stack:
            self.local_bytes = -(-self.local_bytes // 16) * 16 + _STACK_BYTES
        size = max((p.offset + p.size for p in entry.parameters), default=0)
        return Kernel(
            program, 0, entry.parameters, size, self.static_shared, self.local_bytes, entry.directives, self.functions,
            tuple((need, *place) for need, place in self.needs.items()),
        )  # fmt: skip

    # --- variables ----------------------------------------------------------------------------------------------
    def _place_variables(self) -> int:
        shared: list[Variable] = []
        for v in self.module.variables.values():
            if v.space in ("global", "const"):
                self.symbols[v.name] = Symbol("global", len(self.variables))
                self.variables.append(v)
            elif v.space == "shared":
                shared.append(v)
        for function in self.functions:
            for kind, text, line in function.tokens:
                if kind == "statement" and text.startswith(".shared"):
                    shared.extend(parse_variables(text, line))
        return self._place_shared(shared)

    def _place_shared(self, shared: list[Variable]) -> int:
        """Static variables one after another; all extern arrays start behind them, at one address."""
        size = 0
        for v in (v for v in shared if v.size):
            size = -(-size // v.align) * v.align
            self.symbols[v.name] = Symbol("shared", size)
            size += v.size
        dynamic = [v for v in shared if not v.size]
        if dynamic:
            align = max(16, *(v.align for v in dynamic))
            size = -(-size // align) * align
            for v in dynamic:
                self.symbols[v.name] = Symbol("shared", size)
        return size

    def _local(self, name: str, size: int, align: int, line: int) -> None:
        align = max(align, 8)
        self.local_bytes = -(-self.local_bytes // align) * align
        self.symbols[name] = Symbol("local", self.local_bytes, size)
        self.local_bytes += max(size, 8)
        if self.local_bytes > _MAX_LOCAL:
            raise syntax_error(f"{name} exceeds the {_MAX_LOCAL} bytes of local memory of a thread", line)

    def _variable_tuples(self) -> list[tuple[str, int, int, bytes, list[tuple[int, int, int]]]]:
        numbers = {v.name: k for k, v in enumerate(self.variables)}
        out = []
        for v in self.variables:
            init, relocations = _initial(v, numbers, self.addresses)
            out.append((v.name, max(v.size, 1), v.align, init, relocations))
        return out

    # --- functions ----------------------------------------------------------------------------------------------
    def _function(self, function: Function) -> None:
        self.starts[function.name] = self.pc
        self.names.enter_function()
        start = len(self.names.widths), self.names.predicates, self.local_bytes
        formals = self.formals.get(function.name, ({}, (0, 0)))
        self.symbols.update(formals[0])
        self.compiled.clear()
        self.scopes = [self._new_scope()]
        if function.entry:
            for p in function.parameters:
                self.symbols[p.name] = Symbol("param", p.offset)
        self._collect_tables(function)
        line = function.line
        for kind, text, line in function.tokens:
            if kind == "statement":
                self._statement(text, line)
            elif kind == "label":
                self.labels[self.scopes[-1], text] = self.pc
            elif kind == "open":
                self.names.open()
                self.scopes.append(self._new_scope())
            elif kind == "close":
                self.names.close()
                self.scopes.pop()
        self._emit(_HANDLERS["ret"], -1, line, 0, [], [])
        registers, predicates, local = start
        locals_ = [formals[1], (local, self.local_bytes)]
        self.ranges.append(
            (self.starts[function.name], registers, len(self.names.widths), predicates, self.names.predicates, locals_,
             takes_local_address(function))
        )  # fmt: skip

    def _collect_tables(self, function: Function) -> None:
        """Lists of targets and prototypes stand behind a label, often after the branch or call that uses them."""
        label = ""
        for kind, text, _ in function.tokens:
            if kind == "label":
                label = text
            elif kind == "statement" and text.startswith((".branchtargets", ".calltargets")):
                self.tables[label] = [t.strip() for t in text.split(None, 1)[-1].split(",")]
            elif kind == "statement" and text.startswith(".callprototype"):
                self.prototypes.add(label)

    def _new_scope(self) -> int:
        self.scope_count += 1
        return self.scope_count

    def _label(self, name: str, scopes: tuple[int, ...], line: int) -> int:
        for scope in reversed(scopes):
            pc = self.labels.get((scope, name))
            if pc is not None:
                return pc
        raise syntax_error(f"label {name!r} is not defined here", line)

    # --- statements ---------------------------------------------------------------------------------------------
    def _emit(self, handler: int, guard: int, line: int, flags: int, ops: list[int], imms: list[int]) -> int:
        """Appends an instruction; the index of its first imm in the code."""
        try:
            self.code.extend((handler, guard, line, flags, len(ops), len(imms), *ops, *imms))
        except OverflowError:
            raise syntax_error("a number has more than 64 bits", line) from None
        self.pc += 1
        return len(self.code) - len(imms)

    def _statement(self, text: str, line: int) -> None:
        if text[0] == ".":
            self._directive(text, line)
            return
        m = _STATEMENT.match(text)
        if m is None:
            raise syntax_error("a statement is malformed", line, text)
        negated, guard_name, opcode, rest = m.groups()
        guard = -1
        if guard_name:
            word = predicate_word(self.names, guard_name, line)
            guard = word >> INDEX << 1 | bool(negated)
        if " " in opcode or "\n" in opcode or "\t" in opcode:
            opcode = "".join(opcode.split())
        if "//" in rest or "/*" in rest:
            rest = re.sub(r"//[^\n]*|/\*.*?\*/", "", rest, flags=re.S)
        try:
            self._instruction(opcode, rest.strip(), guard, line)
        except UnsupportedInstruction as error:
            raise self._located(error, line) from None

    def _located(self, error: UnsupportedInstruction, line: int) -> UnsupportedInstruction:
        values: dict[str, object] = {"PTX line": line}
        function = max((f for f in self.functions if f.line <= line), key=lambda f: f.line)
        chain = source_chain(function, self.module.files, line)
        if chain:
            values["source"] = chain[-1]
        return UnsupportedInstruction(
            f"PTX line {line}: {error.what}", values=values, remedy="rewrite the kernel without it, or run on a GPU"
        )

    def _directive(self, text: str, line: int) -> None:
        word = re.split(r"\s|(?<=\w)\.", text, maxsplit=1)[0]  # .reg.b16 needs no blank
        if word == ".reg":
            self.names.declare(text, line)
        elif word in (".local", ".param"):
            for v in parse_variables(text, line):
                self._local(v.name, v.size, v.align, line)
        elif word not in (".shared", ".pragma", ".branchtargets", ".calltargets", ".callprototype"):
            raise syntax_error(f"directive {word} does not belong in a body", line, text)

    def _instruction(self, opcode: str, rest: str, guard: int, line: int) -> None:
        if opcode in ("call", "call.uni"):
            self._call(rest, guard, line)
            return
        if opcode in ("brx.idx", "brx.idx.uni"):
            self._switch(rest, guard, line)
            return
        operands = _operands(opcode, rest, line)
        if ".param" in opcode:
            opcode = self._param_space(opcode, operands)
        compiled = self._compile(opcode, shape_of(operands), line)
        ops, imms = compiled.front[:], compiled.imms[:]
        labels = []
        for encode, operand in zip(compiled.encoders, operands, strict=False):
            if encode is None:
                labels.append((len(imms), operand))
                imms.append(0)
            else:
                encode(operand, ops, imms, line)
        if compiled.plan.zero:
            ops.append(self.names.constant(VALUE, True, 0) | READ)
        at = self._emit(compiled.handler, guard, line, compiled.flags, ops, imms)
        for index, name in labels:
            self.fixups.append((at + index, name, tuple(self.scopes), line))

    def _param_space(self, opcode: str, operands: list[str]) -> str:
        """Parameters of functions live in local memory; those of the kernel in the param space."""
        for text in operands:
            if text.startswith("["):
                name = text[1:-1].split("+")[0].strip()
                found = self.symbols.get(name)
                if found is not None and found.space == "local":
                    return re.sub(r"\.param(::\w+)?", ".local", opcode, count=1)
        return opcode

    def _compile(self, opcode: str, shape: tuple[str, ...], line: int) -> _Compiled:
        found = self.compiled.get((opcode, shape))
        if found is not None:
            return found
        need = need_of(opcode, len(shape))
        if need is not None:
            if need.arch > NEWEST:
                raise UnsupportedInstruction(f"{opcode} needs {need}, which the virtual GPU does not run")
            self.needs.setdefault(need, (opcode, line))
        plan = plan_for(opcode, shape)
        self.stack |= plan.handler in ("alloca", "stack")
        wanted = len(plan.operands)
        if not wanted - plan.optional <= len(shape) - plan.unread <= wanted:
            raise UnsupportedInstruction(f"{opcode} has {len(shape)} operands where {wanted} belong")
        encoders = [None if d == "label" else make_encoder(self.names, d, opcode) for d in plan.operands]
        flags = int(plan.reads_undefined) | (2 if plan.handler.startswith(_NEEDS_DEFINED) else 0)
        flags |= 4 if plan.handler.startswith("selp.") else 16 if plan.handler.startswith("mov.pack.") else 0
        flags |= 32 if plan.handler == "prmt" else 0
        flags |= traits_of(opcode) << 8
        front = [(SINK64 if d.endswith("64") else SINK32) | 2 << 3 for d in plan.sinks]
        handler = _HANDLERS.get(plan.handler)
        if handler is None:
            raise UnsupportedInstruction(f"{opcode} is not run by the virtual GPU")
        found = _Compiled(handler, flags, list(plan.imms), front, encoders, plan)
        self.compiled[opcode, shape] = found
        return found

    def _switch(self, rest: str, guard: int, line: int) -> None:
        index, _, table = (p.strip() for p in rest.partition(","))
        targets = self.tables.get(table)
        if targets is None:
            raise syntax_error(f"branch table {table!r} is not defined", line)
        ops: list[int] = []
        make_encoder(self.names, "r:u32")(index, ops, [], line)
        at = self._emit(_HANDLERS["brx"], guard, line, 2, ops, [0] * len(targets))
        for k, name in enumerate(targets):
            self.fixups.append((at + k, name, tuple(self.scopes), line))

    def _call(self, rest: str, guard: int, line: int) -> None:
        m = CALL.match(rest)
        if m is None:
            raise syntax_error("a call is malformed", line, rest)
        results = [t.strip() for t in (m.group(1) or "").split(",") if t.strip()]
        arguments = [t.strip() for t in (m.group(3) or "").split(",") if t.strip()]
        name = m.group(2)
        if name in _EXTERNALS:
            self._call_external(name, results, arguments, guard, line)
            return
        callee = self.module.functions.get(name)
        if callee is None and m.group(4) is not None:
            self._call_indirect(name, m.group(4), results, arguments, guard, line)
            return
        if callee is None or not callee.defined:
            why = "an indirect call needs a .callprototype or .calltargets" if name[0] == "%" else "which has no body"
            raise UnsupportedInstruction(f"call of {name}, {why}")
        copies = self._copies(callee, results, arguments, line)
        imms = [0, len(arguments), len(results), *copies]
        self.calls.append((self._emit(_HANDLERS["call"], guard, line, 0, [], imms), name))

    def _copies(self, callee: Function, results: list[str], arguments: list[str], line: int) -> list[int]:
        """(from, to, bytes) in local memory of every argument, then of every result."""
        sizes = [p.size for p in callee.parameters], [p.size for p in callee.results]
        given = self._places(callee.name, arguments, sizes[0], line)
        wanted = self._places(callee.name, results, sizes[1], line)
        symbols = self.formals[callee.name][0]
        formals = [symbols[p.name].value for p in (*callee.parameters, *callee.results)]
        copies = [*zip(given, formals, sizes[0], strict=False)]
        copies += zip(formals[len(given) :], wanted, sizes[1], strict=True)
        return [n for copy in copies for n in copy]

    def _call_indirect(
        self, target: str, kind: str, results: list[str], arguments: list[str], guard: int, line: int
    ) -> None:
        """A call through a register: of any function of the prototype, or of those that ``.calltargets`` lists."""
        listed = self.tables.get(kind)
        if listed is None and kind not in self.prototypes:
            raise syntax_error(f"{kind!r} is no .callprototype or .calltargets", line)
        sizes = [self.symbols.get(n, Symbol("", 0)).size for n in (*arguments, *results)]
        imms, places = [0, len(arguments), len(results)], []
        for name in listed or self.addresses:
            callee = self.module.functions[name] if name in self.addresses else None
            if callee is None:
                raise syntax_error(f"{name!r} of {kind} is no function with a body", line)
            shape = len(callee.parameters), len(callee.results), [p.size for p in (*callee.parameters, *callee.results)]
            if shape != (len(arguments), len(results), sizes):
                continue
            imms[0] += 1
            imms.append(self.addresses[name])
            places.append((len(imms), name))
            imms += [0, *self._copies(callee, results, arguments, line)]
        ops: list[int] = []
        make_encoder(self.names, "r:u64")(target, ops, [], line)
        at = self._emit(_HANDLERS["call.indirect"], guard, line, 2, ops, imms)
        self.calls += [(at + index, name) for index, name in places]

    def _call_external(self, name: str, results: list[str], arguments: list[str], guard: int, line: int) -> None:
        handler, sizes = _EXTERNALS[name]
        front = []
        if name == "vprintf":
            front = self._places(name, results, (4,) * len(results), line)[:1] or [-1]
        self._emit(_HANDLERS[handler], guard, line, 0, [], front + self._places(name, arguments, sizes, line))

    def _places(self, callee: str, names: list[str], sizes: Sequence[int], line: int) -> list[int]:
        """Where the variables of a call lie in local memory, checked against the sizes of the callee."""
        found = [self.symbols.get(n, Symbol("", 0)) for n in names]
        if len(found) != len(sizes) or any(s.space != "local" for s in found):
            raise syntax_error(f"a call of {callee} takes {len(sizes)} .param variables", line, ", ".join(names))
        if any(s.size < size for s, size in zip(found, sizes, strict=True)):
            raise syntax_error(f"a variable is smaller than the parameter of {callee}", line, ", ".join(names))
        return [s.value for s in found]


def _operands(opcode: str, rest: str, line: int) -> list[str]:
    """The texts of the operands of a statement."""
    if "{" in rest or "[" in rest:
        operands = [o.strip() for o in _OPERAND.findall(rest)]
    else:
        operands = [o.strip() for o in rest.split(",")] if rest else []
    if "" in operands:
        raise syntax_error("an operand is missing", line, f"{opcode} {rest}")
    if opcode.startswith("prmt.") and len(operands) == 4:
        operands[1:3] = _permuted(opcode, *operands[1:])
    return operands


def _permuted(opcode: str, a: str, b: str, selector: str) -> tuple[str, str]:
    """The sources of a ``prmt``; the one that lends no byte is the other one too, so that it need not be defined."""
    if opcode.endswith((".rc8", ".ecl", ".ecr", ".rc16")):
        return a, a
    value = literal(selector, "b32") if opcode == "prmt.b32" else None
    if value is None:
        return a, b
    picked = {value >> 4 * k & 4 for k in range(4)}
    return (a, a) if picked == {0} else (b, b) if picked == {4} else (a, b)


def _initial(
    v: Variable, numbers: dict[str, int], functions: dict[str, int]
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """The bytes of an initialiser, and the places that hold addresses of other variables."""
    if not v.init:
        return b"", []
    size = TYPE_BYTES[v.type]
    out = bytearray()
    relocations: list[tuple[int, int, int]] = []
    for piece in re.sub(r"[{}\s]+", " ", v.init).strip().split(","):
        text = piece.strip()
        if not text:
            continue
        name = re.sub(r"^generic\((.*)\)$", r"\1", text)
        base, _, addend = name.partition("+")
        if base.strip() in numbers:
            relocations.append((len(out), numbers[base.strip()], signed_offset(addend or "0", v.line)))
            out += bytes(8)
            continue
        value = functions.get(name.strip(), literal(text, v.type))
        if value is None:
            raise syntax_error(f"the initialiser {text!r} of {v.name} is not a literal", v.line)
        out += (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if len(out) > max(v.size, 1):
        raise syntax_error(f"the initialiser of {v.name} is longer than its {v.size} bytes", v.line)
    return bytes(out), relocations
