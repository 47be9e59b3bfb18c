"""PTX text to a module: variables, functions and the raw statements of their bodies, each with its line.

Bodies are cut into statements by one regular expression; their operands are looked at only when a kernel is encoded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from ..errors import PtxSyntaxError, UnsupportedInstruction

_MODULE = re.compile(
    r"""\s++|//[^\n]*|/\*.*?\*/
    |(?P<line>\.(?:version|target|address_size|file|loc)\b[^\n]*)
    |(?P<section>\.section\b[^{]*\{[^}]*\})
    |(?P<function>(?:\.(?:visible|extern|weak|common)\s+)*\.(?:entry|func)\b[^{;]*)(?P<end>[{;])
    |(?P<variable>(?:\.(?:visible|extern|weak|common)\s+)*\.(?:global|const|shared|tex|samplerref|surfref)\b[^;]*);
    |(?P<other>\.(?:pragma|alias)\b[^;]*;)""",
    re.X | re.S,
)
_BODY = re.compile(
    r"""(?:\s+|//[^\n]*|/\*.*?\*/)*+
    (?:(?P<loc>\.loc\b[^\n]*)
    |(?P<label>[A-Za-z_$%][\w$]*)\s*:(?!:)
    |(?P<open>\{)|(?P<close>\})
    |(?P<statement>[.@A-Za-z_][^;]*);)""",
    re.X | re.S,
)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)(?:\s+\.ptr(?:\s+\.(?:global|shared|const|local|param))?(?:\s+\.align\s+\d+)?)?"
    r"\s+([\w$%]+)\s*(?:\[(\d*)\])?"
)
_HEADER = re.compile(
    r"\.(entry|func)\s*(?:\.attribute\s*\([^)]*\)\s*)?(\([^)]*\))?\s*([\w$%]+)\s*(\([^)]*\))?(.*)", re.S
)
_VARIABLE = re.compile(
    r"((?:\.\w+\s+)*?)\.(global|const|shared|local|param)\s+((?:\.attribute\s*\([^)]*\)\s*)?)(?:\.align\s+(\d+)\s+)?"
    r"(?:\.v([248])\s+)?\.(\w+)\s+(.*)",
    re.S,
)
_NAME = re.compile(r"([\w$%]+)\s*((?:\[\s*\d*\s*\]\s*)*)(?:=\s*(.*))?$", re.S)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)

TYPE_BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 16,
    "f16": 2,
    "bf16": 2,
    "f16x2": 4,
    "bf16x2": 4,
    "f32": 4,
    "tf32": 4,
    "f64": 8,
    "pred": 1,
}
MAX_VARIABLE_BYTES = 1 << 28
_MAX_ALIGN = 1 << 20


@dataclass(frozen=True)
class Variable:
    """A variable of a state space: ``size`` in bytes (0: extern array), ``init`` as written."""

    name: str
    space: str
    type: str
    align: int
    size: int
    init: str
    line: int
    extern: bool = False


@dataclass(frozen=True)
class Parameter:
    """A kernel or function parameter of ``count`` elements (1: scalar); ``offset`` in its parameter list in bytes."""

    name: str
    type: str
    align: int
    count: int
    offset: int
    array: bool

    @property
    def size(self) -> int:
        """Bytes."""
        return TYPE_BYTES[self.type] * self.count


# What a statement of a body is: (kind, text, line); kinds "loc", "label", "open", "close", "statement".
Token = tuple[str, str, int]


@dataclass(frozen=True)
class Function:
    """A function or kernel: its parameters and, unless it is only declared, its body."""

    name: str
    entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    directives: str
    tokens: tuple[Token, ...]
    defined: bool
    line: int


@dataclass(frozen=True)
class Module:
    """A parsed PTX module."""

    text: str = field(repr=False)
    version: str
    target: str
    files: dict[int, str]
    variables: dict[str, Variable]
    functions: dict[str, Function]

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return tuple(f.name for f in self.functions.values() if f.entry)


class Lines:
    """Line numbers (from 1) of offsets into a text."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def at(self, offset: int) -> int:
        """The line that ``offset`` is in."""
        return bisect_right(self._starts, offset)


def syntax_error(what: str, line: int, text: str = "") -> PtxSyntaxError:
    """The error for malformed PTX at ``line``."""
    values = {"text": " ".join(text.split())[:100]} if text else None
    return PtxSyntaxError(f"PTX line {line}: {what}", values=values)


def _alignment(text: str | None, default: int, line: int) -> int:
    """The power of two that ``.align`` gives."""
    value = _whole(text, line) if text else default
    if value < 1 or value & (value - 1) or value > _MAX_ALIGN:
        raise syntax_error(f"{value} is not an alignment", line)
    return value


def _whole(text: str, line: int) -> int:
    """A decimal number small enough to be a size."""
    value = int(text) if len(text) <= 12 else MAX_VARIABLE_BYTES + 1
    if value > MAX_VARIABLE_BYTES:
        raise syntax_error(f"{text[:20]} is too large", line)
    return value


def parse_parameters(text: str, line: int) -> tuple[Parameter, ...]:
    """The parameters of a parenthesised list, laid out by their alignment."""
    out: list[Parameter] = []
    offset = 0
    body = _COMMENT.sub("", text).strip()[1:-1]
    for piece in filter(None, (p.strip() for p in body.split(","))):
        m = _PARAM.match(piece) or re.match(r"\.reg()\s+\.(\w+)\s+([\w$%]+)()", piece)
        if m is None or m.group(2) not in TYPE_BYTES:
            raise syntax_error("a parameter is malformed", line, piece)
        size = TYPE_BYTES[m.group(2)]
        align = _alignment(m.group(1), size, line)
        offset = -(-offset // align) * align
        count = _whole(m.group(4) or "1", line)
        out.append(Parameter(m.group(3), m.group(2), align, count, offset, "[" in piece))
        offset += size * count
        if offset > MAX_VARIABLE_BYTES:
            raise syntax_error("the parameters are too large", line, piece)
    return tuple(out)


def parse_variables(text: str, line: int) -> list[Variable]:
    """The variables that one declaration declares."""
    m = _VARIABLE.match(_COMMENT.sub("", text).strip())
    if m is not None and m.group(6) in ("texref", "samplerref", "surfref"):
        raise UnsupportedInstruction(
            f"PTX line {line}: .{m.group(6)} {m.group(7)} is a texture or surface, which the virtual GPU does not have",
            values={"PTX line": line},
            remedy="read it through a pointer, or run on a GPU",
        )
    if m is None or m.group(6) not in TYPE_BYTES:
        raise syntax_error("a variable declaration is malformed", line, text)
    linkage, space, _, align, vector, type_, rest = m.groups()
    element = TYPE_BYTES[type_] * int(vector or 1)
    pieces = [rest] if "=" in rest else rest.split(",")
    out = []
    for piece in pieces:
        n = _NAME.match(piece.strip())
        if n is None:
            raise syntax_error("a variable declaration is malformed", line, piece)
        name, dims, init = n.groups()
        size = element
        for d in re.findall(r"\[\s*(\d*)\s*\]", dims):
            size *= _whole(d or "0", line)
        if size == 0 and init:
            size = element * len(init.strip("{} \n\t").split(","))
        if size > MAX_VARIABLE_BYTES:
            raise syntax_error(f"variable {name} of {size} bytes is too large", line)
        extern = "extern" in linkage
        at = _alignment(align, element, line)
        out.append(Variable(name, space, type_, at, size, (init or "").strip(), line, extern))
    return out


def _body(text: str, start: int, lines: Lines) -> tuple[tuple[Token, ...], int]:
    """The tokens from behind the opening brace to the closing one, and the offset behind that."""
    tokens: list[Token] = []
    depth = 1
    at = start
    match = _BODY.match
    while True:
        m = match(text, at)
        if m is None:
            line = lines.at(at)
            raise syntax_error("a statement is malformed or the function does not end", line, text[at : at + 80])
        at = m.end()
        kind = m.lastgroup or ""
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
            if depth == 0:
                return tuple(tokens), at
        tokens.append((kind, m.group(kind), lines.at(m.start(kind))))


def _function(m: re.Match[str], text: str, lines: Lines) -> tuple[Function, int]:
    line = lines.at(m.start("function"))
    header = _COMMENT.sub("", m.group("function"))
    h = _HEADER.search(header)
    if h is None:
        raise syntax_error("a function header is malformed", line, header)
    kind, results, name, parameters, directives = h.groups()
    defined = m.group("end") == "{"
    tokens, end = _body(text, m.end(), lines) if defined else ((), m.end())
    function = Function(
        name,
        kind == "entry",
        parse_parameters(parameters or "()", line),
        parse_parameters(results or "()", line),
        " ".join(directives.split()),
        tokens,
        defined,
        line,
    )
    return function, end


def parse_module(text: str) -> Module:
    """Parses PTX text.

    Raises:
        PtxSyntaxError: something is not PTX, with its line.
    """
    lines = Lines(text)
    heads: dict[str, str] = {}
    files: dict[int, str] = {}
    variables: dict[str, Variable] = {}
    functions: dict[str, Function] = {}
    at = 0
    while at < len(text):
        m = _MODULE.match(text, at)
        if m is None:
            raise syntax_error("this is not PTX", lines.at(at), text[at : at + 80])
        at = m.end()
        if m.lastgroup == "line":
            _directive(m.group("line"), heads, files)
        elif m.lastgroup == "end":
            function, at = _function(m, text, lines)
            if function.defined or function.name not in functions:
                functions[function.name] = function
        elif m.lastgroup == "variable":
            for v in parse_variables(m.group("variable"), lines.at(m.start())):
                variables[v.name] = v
    return Module(text, heads.get("version", ""), heads.get("target", ""), files, variables, functions)


def _directive(text: str, heads: dict[str, str], files: dict[int, str]) -> None:
    word, rest = [*text.split("//", maxsplit=1)[0].split(None, 1), ""][:2]
    rest = rest.strip()
    if word == ".file":
        m = re.match(r'(\d+)\s+"([^"]*)"', rest)
        if m:
            files[int(m.group(1))] = m.group(2)
    elif word != ".loc":
        heads[word[1:]] = rest
