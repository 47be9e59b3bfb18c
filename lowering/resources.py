"""ptxas's verbose log, parsed into ``Resources``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .artifact import Resources
from .plan import LaunchPlan

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for '?([\w$]+)'?")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")
_REMARK = re.compile(r"^ptxas (?:info|warning)\s*: (\((C\d+)\).*|.*Potential Performance Loss.*)$")
_WARNING = re.compile(r"^ptxas warning\s*: (.*)$")


def stable_log(log: str) -> str:
    """The log without what differs from run to run (times, the precompiled header), so that artifacts reproduce."""
    lines = [line for line in log.splitlines() if "Compile time" not in line and "precompiled header" not in line]
    return "\n".join(lines) + "\n"


def parse_resources(log: str, plan: LaunchPlan) -> tuple[Resources, ...]:
    """Resources of every kernel that the plan launches, in the order of their first launch."""
    found: dict[str, Resources] = {}
    current = ""
    for line in log.splitlines():
        named = _ENTRY.search(line) or _PROPERTIES.search(line)
        if named:
            current = named[1]
            continue
        _remark(line, found, current)
        if not current:
            continue
        entry = found.setdefault(current, Resources(current, 0, 0, 0, 0, 0, 0, 0, 0))
        found[current] = _update(entry, line)
    names = tuple(dict.fromkeys(launch.kernel for launch in plan.launches))
    return tuple(_with_dynamic(found.get(n, Resources(n, 0, 0, 0, 0, 0, 0, 0, 0)), plan) for n in names)


def _remark(line: str, found: dict[str, Resources], current: str) -> None:
    match = _REMARK.match(line) or _WARNING.match(line)
    if match is None:
        return
    named = re.search(r"function '([\w$]+)'", line)
    kernel = named[1] if named else current
    entry = found.setdefault(kernel, Resources(kernel, 0, 0, 0, 0, 0, 0, 0, 0))
    found[kernel] = replace(entry, remarks=(*entry.remarks, match[1]))


def _update(entry: Resources, line: str) -> Resources:
    stack = _STACK.search(line)
    if stack:
        return replace(entry, stack=int(stack[1]), spill_stores=int(stack[2]), spill_loads=int(stack[3]))
    used = _USED.search(line)
    if not used:
        return entry
    return replace(
        entry,
        registers=int(used[1]),
        barriers=_sum(_BARRIERS, line),
        static_shared=_sum(_SHARED, line),
        constant=_sum(_CONSTANT, line),
    )


def _sum(pattern: re.Pattern[str], line: str) -> int:
    return sum(int(number) for number in pattern.findall(line))


def _with_dynamic(entry: Resources, plan: LaunchPlan) -> Resources:
    sizes = [launch.dynamic_shared for launch in plan.launches if launch.kernel == entry.kernel]
    known = [size.evaluate() for size in sizes if size.constant]
    return replace(entry, dynamic_shared=max(known) if len(known) == len(sizes) else -1)


def resource_remarks(resources: Sequence[Resources]) -> tuple[str, ...]:
    """What of the resources a user should know: spills, and remarks of ptxas."""
    remarks: list[str] = []
    for entry in resources:
        if entry.spill_stores or entry.spill_loads:
            remarks.append(
                f"{entry.kernel} spills registers: {entry.spill_stores} bytes stored, {entry.spill_loads} bytes loaded"
            )
        remarks.extend(f"{entry.kernel}: {remark}" for remark in entry.remarks)
    return tuple(remarks)
