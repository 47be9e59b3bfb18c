"""Damages PTX texts and launch plans; every one must end in a report or in one error of the catalogue.

``python tests/vgpu/damage.py --count 10000`` runs the cases in batches, each batch in a process of its own, so that a
crash or an endless run of the engine is found and named. ``--subjects FILE`` adds subjects as JSON lines, ``--ptx``
adds PTX files whose launch is guessed from their parameters.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from tilewright import vgpu
from tilewright.errors import TilewrightError

BUDGET = 20_000
BATCH = 250
SECONDS_A_BATCH = 240
_NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "4",
    "7",
    "8",
    "15",
    "16",
    "31",
    "32",
    "33",
    "64",
    "127",
    "128",
    "255",
    "256",
    "4096",
)
_NUMBERS += (
    "65535",
    "1048576",
    "2147483647",
    "-2147483648",
    "4294967295",
    "9223372036854775807",
    "18446744073709551616",
)
_NUMBERS += (
    "0f7FC00000",
    "0d7FF0000000000000",
    "0f3F800000",
    "0x",
    "1.5",
    "09",
    "0b102",
    "123456789012345678901234567890",
)
_WORDS = """
sync aligned shared global local param const shared::cta shared::cluster u8 s8 b8 u16 s16 b16 u32
s32 b32 u64 s64 b64 b128 f16 bf16 f16x2 bf16x2 f32 f64 tf32 e4m3 e5m2 pred v2 v4 v8 lo hi wide rn rz
rm rp ftz sat relu NaN cc x1 x2 x4 trans m8n8 cta cluster gpu sys acquire release relaxed add min
max and or xor cas exch inc dec noftz 1d 2d 3d 4d 5d tile multicast::cluster L2::cache_hint sp row
col m16n8k16 m16n8k32 m64n64k16 parity expect_tx uni to nc volatile
""".split()  # noqa: SIM905
_CHARACTERS = '{}[]();,.@!%+-|<>=:"_ \n\t/*\\0xaé'


@dataclasses.dataclass(frozen=True)
class Subject:
    """A kernel and a launch that runs it. An argument is a number, or ``["tensor", bytes]``, ``["map", {...}]``."""

    ptx: str
    entry: str = "k"
    grid: Any = 1
    block: Any = 32
    args: tuple[Any, ...] = ()
    dynamic_smem: Any = 0
    cluster: Any = None
    target: Any = "sm_90a"


def make_argument(described: Any) -> Any:
    """The argument that an entry of ``Subject.args`` stands for."""
    if not isinstance(described, list | tuple) or not described:
        return described
    kind, value = described
    if kind == "tensor":
        return torch.zeros(value, dtype=torch.uint8)
    if kind == "bytes":
        return bytes(value)
    options = dict(value)
    memory = torch.zeros(options.pop("bytes"), dtype=torch.uint8)
    return vgpu.TensorMap(memory, **options)


# --- damage to texts --------------------------------------------------------------------------------------------------
def _delete_line(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    del lines[rng.randrange(len(lines))]
    return "\n".join(lines)


def _duplicate_line(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return "\n".join(lines)


def _swap_lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _replace(rng: random.Random, text: str, pattern: str, make: Any) -> str:
    found = [m.span() for m in re.finditer(pattern, text)]
    if not found:
        return text
    lo, hi = rng.choice(found)
    return text[:lo] + make(text[lo:hi]) + text[hi:]


def _change_operand(rng: random.Random, text: str) -> str:
    words = re.findall(r"%\w+(?:\.\w)?|\b[a-zA-Z_]\w+\b(?=[+\],;])", text)
    return _replace(rng, text, r"%\w+(?:\.\w)?", lambda _: rng.choice([*words, "_", "!%p0", "%nothing", ""]))


def _change_number(rng: random.Random, text: str) -> str:
    return _replace(rng, text, r"(?<![\w%.])-?\d\w*", lambda _: rng.choice(_NUMBERS))


def _change_modifier(rng: random.Random, text: str) -> str:
    def other(_: str) -> str:
        return rng.choice(["", "." + rng.choice(_WORDS), "." + rng.choice(_WORDS) + "." + rng.choice(_WORDS)])

    return _replace(rng, text, r"\.[a-z]\w*(?:::\w+)*", other)


def _change_opcode(rng: random.Random, text: str) -> str:
    pattern = r"(?m)(?<=[;}\n\t ])[a-z][a-z0-9]*(?:\.[\w:]+)+(?=\s)"
    opcodes = re.findall(pattern, text)
    return _replace(rng, text, pattern, lambda _: rng.choice(opcodes))


def _drop_operand(rng: random.Random, text: str) -> str:
    return _replace(rng, text, r",\s*[^,;]+(?=[,;])", lambda s: rng.choice(["", s + s]))


def _truncate(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text))]


def _cut(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + text[at + rng.choice([1, 1, 2, 8, 100]) :]


def _character(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(_CHARACTERS) * rng.choice([1, 1, 1, 40]) + text[at + rng.randrange(2) :]


DAMAGES = (
    _delete_line,
    _duplicate_line,
    _swap_lines,
    _change_operand,
    _change_operand,
    _change_number,
    _change_number,
    _change_modifier,
    _change_modifier,
    _change_opcode,
    _drop_operand,
    _truncate,
    _cut,
    _character,
)


def damage_text(rng: random.Random, text: str) -> str:
    """``text`` with one to four injuries."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if text:
            text = rng.choice(DAMAGES)(rng, text)
    return text


# --- damage to launches -----------------------------------------------------------------------------------------------
_EXTENTS = (
    0,
    -1,
    1,
    2,
    3,
    31,
    33,
    128,
    1024,
    1025,
    2**31,
    2**32,
    2**64,
    [1, 2, 3],
    [1, 2, 3, 4],
    [],
    [0, 1],
    [1, 1, 65],
    1.5,
    "x",
    None,
    True,
)
_ARGUMENTS = (
    None,
    0,
    -1,
    1,
    2**31,
    2**64,
    -(2**70),
    1.5,
    float("nan"),
    1e300,
    "x",
    [],
    ["tensor", 0],
    ["tensor", 1],
    ["tensor", 4096],
    ["bytes", 0],
    ["bytes", 8],
    ["bytes", 128],
    [
        "map",
        {"bytes": 4096, "dtype": "uint8", "dims": [64, 64], "strides": [64], "box": [16, 8], "element_strides": [1, 1]},
    ],
)
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "dynamic_smem": (0, -1, 1, 16, 1024, 2**20, 2**33, 2**70, 1.5, "x", None),
    "cluster": (0, -1, 1, 2, 4, 16, 17, [2, 2, 2], [1, 2], 2**32, "x", 1.5),
    "target": ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_70", "sm_", "x", "", 90, None),
    "mode": ("eager", "lazy", "skew", "random", "x", "", 3),
    # not None: without the standard checks nothing stops a faulty kernel from ending the process
    "checks": ((), ("race",), ("x",), "race", 2.5, 3),
    "threads": (1, 2, 0, -1, 10**6, "x", 1.5),
    "seed": (0, 1, -1, 2**64, 2**70, "x", 1.5),
    "budget": (0, 1, 100, -1, 2**70, "x", 1.5),
    "entry": ("k", "", "nothing", "é", 3, None),
}


def damage_launch(rng: random.Random, plan: dict[str, Any]) -> dict[str, Any]:
    """A launch with one to three wrong values."""
    out = dict(plan)
    for _ in range(rng.choice([1, 1, 2, 3])):
        where = rng.choice(["grid", "block", "args", "args", *_OPTIONS])
        if where in ("grid", "block"):
            out[where] = rng.choice(_EXTENTS)
        elif where == "args":
            out["args"] = _damage_arguments(rng, list(out["args"]))
        else:
            out[where] = rng.choice(_OPTIONS[where])
    return out


def _damage_arguments(rng: random.Random, args: list[Any]) -> list[Any]:
    at = rng.randrange(len(args) + 1)
    how = rng.randrange(4)
    if how == 0 or not args:
        args.insert(at, rng.choice(_ARGUMENTS))
    elif how == 1:
        args.pop(at % len(args))
    elif how == 2:
        rng.shuffle(args)
    else:
        args[at % len(args)] = rng.choice(_ARGUMENTS)
    return args


# --- cases ------------------------------------------------------------------------------------------------------------
def make_case(subjects: list[Subject], number: int) -> tuple[str, dict[str, Any]]:
    """Damaged PTX and launch of case ``number``: two of three cases damage the text, the others the launch."""
    rng = random.Random(number)
    subject = rng.choice(subjects)
    plan = dataclasses.asdict(subject)
    text = plan.pop("ptx")
    plan |= {
        "mode": rng.choice(["eager", "eager", "lazy", "skew", "skew-reverse", "lazy-reverse", "random"]),
        "budget": BUDGET,
    }
    plan |= {"threads": 1, "seed": 0, "checks": ()}
    if number % 3:
        text = damage_text(rng, text)
    else:
        plan = damage_launch(rng, plan)
    return text, plan


def run_case(subjects: list[Subject], number: int) -> str:
    """How the case ended: ``ok``, ``finding`` or the name of the error.

    Raises:
        AssertionError: the error is not readable.
        Exception: whatever escaped instead of an error of the catalogue.
    """
    text, plan = make_case(subjects, number)
    try:
        plan["args"] = [make_argument(a) for a in plan["args"]]
        report = vgpu.launch(text, **plan)
    except TilewrightError as error:
        if len(str(error).split("\n")) > 12:
            raise AssertionError(str(error)) from error
        return type(error).__name__
    str(report)
    return "ok" if report.ok else "finding"


def load_subjects(path: Path) -> list[Subject]:
    """Subjects of a file of JSON lines."""
    return [Subject(**json.loads(line)) for line in path.read_text().splitlines() if line]


def guess_subject(path: Path) -> Subject:
    """A launch for a PTX file: buffers for pointers, tensor maps for 128-byte parameters."""
    text = path.read_text()
    module = vgpu.parse(text)
    entry = module.functions[module.entries[0]]
    m = re.search(r"(?:maxntid|reqntid)\s+(\d+)", entry.directives)
    sheet = {"bytes": 1 << 18, "dtype": "float16", "dims": [256, 256], "strides": [512], "box": [64, 64]}
    sheet |= {"element_strides": [1, 1], "swizzle": 3}
    args = [["map", sheet] if p.size == 128 else ["tensor", 1 << 18] if p.size == 8 else 64 for p in entry.parameters]
    target = module.target.split(",")[0].strip()
    return Subject(text, entry.name, 2, int(m.group(1)) if m else 128, tuple(args), 98_304, None, target)


# --- batches ----------------------------------------------------------------------------------------------------------
def _run_batch(subjects: list[Subject], first: int, count: int) -> int:
    outcomes: Counter[str] = Counter()
    for number in range(first, first + count):
        print(f"case {number}", file=sys.stderr, flush=True)
        started = time.monotonic()
        try:
            outcomes[run_case(subjects, number)] += 1
        except Exception as error:  # anything else is what the run looks for
            outcomes["escaped"] += 1
            print(f"ESCAPED {number} {type(error).__name__}: {error}"[:300], flush=True)
        if time.monotonic() - started > 20:
            print(f"SLOW {number}", flush=True)
    print("OUTCOMES " + json.dumps(outcomes), flush=True)
    return 0


def _run_all(args: argparse.Namespace) -> int:
    outcomes: Counter[str] = Counter()
    for first in range(args.first, args.first + args.count, BATCH):
        command = [sys.executable, __file__, "--batch", "--first", str(first), "--count", str(BATCH)]
        command += ["--subjects", *map(str, args.subjects), "--ptx", *map(str, args.ptx)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS_A_BATCH, check=False, env=os.environ
            )
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            code, out, err = -1, _text(error.stdout), _text(error.stderr)
        for line in out.splitlines():
            if line.startswith("OUTCOMES "):
                outcomes.update(json.loads(line[9:]))
            else:
                print(line, flush=True)
        if code:
            outcomes["crashed or hung"] += 1
            print(f"CRASH code {code} after:", *err.splitlines()[-25:], sep="\n  ", flush=True)
    print(json.dumps(outcomes))
    return int(any(outcomes[name] for name in ("crashed or hung", "escaped")))


def _text(data: bytes | str | None) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data or ""


def main() -> int:
    """Runs the cases; 1 when something escaped, crashed or hung."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--batch", action="store_true", help="run the cases in this process")
    parser.add_argument("--subjects", type=Path, nargs="*", default=[])
    parser.add_argument("--ptx", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    if not args.batch:
        return _run_all(args)
    own = Path(__file__).with_name("damage_subjects.jsonl")
    subjects = [s for path in (own, *args.subjects) for s in load_subjects(path)] + [guess_subject(p) for p in args.ptx]
    return _run_batch(subjects, args.first, args.count)


if __name__ == "__main__":
    sys.exit(main())
