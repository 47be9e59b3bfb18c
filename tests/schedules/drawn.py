"""Schedules drawn at random from the whole language, and what becomes of one: run in a process of its own."""

import warnings
from dataclasses import fields

import schedule_programs as programs
from attention_program import attention
from hypothesis import strategies as st

from tilewright.dsl import Loop, Target
from tilewright.errors import TilewrightError
from tilewright.lowering import Options, lowered_source
from tilewright.runtime import check, compile
from tilewright.schedules import PRIMITIVES, Schedule

SIZES = {
    "gemm": {"m": 96, "n": 72, "k": 96, "tm": 64, "tn": 32, "tk": 32},
    "softmax": {"m": 20, "n": 64},
    "layer_norm": {"m": 20, "n": 64},
}
QUICK = tuple(SIZES)
SIZES["attention"] = {"queries": 64, "keys": 64, "dim": 32, "tile_m": 64, "tile_n": 32}
LONG = tuple(SIZES)
TARGETS = ("sm_80", "sm_90a")
WORDS = {
    "where": ("shared", "fragment"),
    "order": ("row", "column"),
    "engine": ("tma", "cp_async", "sync"),
    "policy": ("square", "full_row", "full_col", "normal", "first", "last"),
}
NUMBERS = {
    "n": (1, 2, 32, 64, 128, 256),
    "depth": (1, 2, 3, 4),
    "panel": (1, 2, 8),
    "width": (1, 2, 4, 8, 32, 64, 128),
    "elements": (4, 8, 16),
    "parts": (1, 2, 3, 4),
    "blocks": (0, 1, 2, 5),
    "x": (1, 2),
    "y": (1, 2),
    "z": (1,),
}


def program_of(name):
    factory = attention if name == "attention" else getattr(programs, name)
    return factory.bind(**SIZES[name])


def names_of(program):
    """The names that a step of each kind may use; staged tiles exist only behind the step that makes them."""
    outline = program.outline()
    labels = {kind: [entry.label for entry in outline.of_kind(kind)] for kind in ("op", "loop", "buffer")}
    copies = [label for label in labels["op"] if label.startswith("copy")]
    store = [label.removeprefix("copy ").split("->") for label in copies][-1]
    serial = [e.label for e in outline.loops if isinstance(e.detail, Loop) and e.detail.kind != "parallel"]
    tensors = [param.name for param in program.params]
    return {
        "loop": serial or labels["loop"],
        "tile": [*labels["buffer"], f"{store[0]}_staged", f"{tensors[0]}_staged"],
        "other": labels["buffer"],
        "copy": [*copies, f"copy {store[0]}_staged->{store[1]}"],
        "gemm": [label for label in labels["op"] if label.startswith("gemm")] or labels["op"],
        "handle": [*copies, *(label for label in labels["loop"] if label not in serial), *labels["op"]],
        "tensor": ["", *tensors],
    }


def _option(field, names):
    kind = str(field.type)
    if kind == "bool":
        return st.booleans()
    if kind == "int":
        return st.sampled_from(NUMBERS.get(field.name, (0, 1, 2, 3)))
    pool = WORDS.get(field.name) or names.get(field.name) or [*names["handle"], *names["loop"]]
    return st.sampled_from(list(pool))


def steps(names):
    """One step: any primitive whose options are numbers and names."""
    simple = [kind for kind in PRIMITIVES if all(str(f.type) in ("int", "str", "bool") for f in fields(kind))]
    return st.one_of([st.builds(k, **{f.name: _option(f, names) for f in fields(k)}) for k in simple])


@st.composite
def drawn(draw, among=QUICK):
    """The name of a program, a target and the JSON of a schedule; a step that does not fit ends it, or is left out."""
    name, target = draw(st.sampled_from(sorted(among))), draw(st.sampled_from(TARGETS))
    program = program_of(name)
    schedule = Schedule()
    for _ in range(draw(st.integers(1, 6))):
        longer = schedule.then(draw(steps(names_of(schedule.apply(program, Target(target))))))
        try:
            longer.apply(program, Target(target))
        except TilewrightError:
            if draw(st.integers(0, 9)) == 9:
                return name, target, longer.to_json()
        else:
            schedule = longer
    return name, target, schedule.to_json()


def generated(name, target, text):
    """The CUDA text under a schedule, made anew whatever a cache holds."""
    scheduled = Schedule.from_json(text).apply(program_of(name), Target(target))
    return lowered_source(scheduled, Target(target), Options()).cuda


def outcome(name, target, text):
    """What became of a schedule: ``refused: ...``, ``right``, or what is wrong."""
    program, schedule = program_of(name), Schedule.from_json(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel = compile(program, schedule, Target(target))
    except TilewrightError as error:
        lines = str(error).splitlines()
        return (
            f"refused: {type(error).__name__}: {lines[0]}" if len(lines) <= 12 else f"a message of {len(lines)} lines"
        )
    tensors = programs.operands(program)
    report = check(kernel, *tensors, verify=lambda _, *found: programs.wrong(program, *found))
    return "right" if report.ok else f"wrong: {str(report)[:1500]}"
