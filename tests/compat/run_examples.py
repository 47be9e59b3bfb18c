"""Run a checkout of TileLang's examples through ``tw.jit`` on the virtual GPU and say how each ends."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import io
import json
import os
import re
import resource
import runpy
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from redirect import Log, redirect
from settings import ARGUMENTS, EDITS, ELSEWHERE, NO_EXAMPLE, POINTERS, ZEROED
from shrink import copy
from torch._dynamo import trace_rules

import tilewright as tw
from tilewright.runtime import recording

MEMORY = 24 << 30  # of addresses; the CUDA wheels map several GiB
# comparisons that an example makes itself, and that raise
OWN_CHECK = re.compile(r"assert_\w*(similar|close)\(|\bassert (diff|sim)|\bcompare_\w+\(")
# verdicts that an example only prints
PRINTED_FAILURE = re.compile(r"✗|❌|\bFAILED\b|all_close=False|do(?:es)? not match|don't match", re.IGNORECASE)
PRINTED_SUCCESS = re.compile(r"✓|√|✅|\bpassed\b|all_close=True", re.IGNORECASE)
# refusals that name what the target lacks
TOO_LITTLE = re.compile(
    r"SharedMemoryError|ResourceLimit|has no 8-bit float matrix units|requires TMA-capable|cannot multiply int4"
    r"|compute capability >= 9|wgmma_gemm\(\) requires"
)


@dataclass(frozen=True)
class Outcome:
    """How one example ended on one target.

    ``status``: ``matches`` (compared with its reference, and equal), ``runs`` (compares nothing), ``mismatch``,
    ``imports`` (defines kernels and calls none), ``needs`` (a package that is not there), ``elsewhere`` (for another
    machine, or no TileLang kernel), ``not here`` (refused, since this target lacks what it uses), ``fails``.
    """

    file: str
    target: str
    status: str
    reason: str = ""
    kernels: int = 0
    launches: int = 0
    seconds: float = 0.0


def outcome_of(file: str, target: str, error: BaseException | None, log: Log, seconds: float) -> Outcome:
    """The outcome of an example that ended with this error, or with none."""
    counts = tw.stats()
    reason, status = "", "imports"
    if isinstance(error, SystemExit) and not error.code:
        error = None
    if error is not None:
        status = "needs" if isinstance(error, ImportError) else "mismatch" if _is_check(error) else "fails"
        reason = (
            f"{_stage(error)}{type(error).__name__}: {' '.join(str(error).split())[:300]} {_where(error)} {log.stock}"
        )
        status = "not here" if TOO_LITTLE.search(reason) else status
    elif log.failed:
        status, reason = "mismatch", log.failed[0]
    elif log.held:
        status = "matches" if counts["launches"] else "runs no kernel"
    elif counts["launches"]:
        status = "matches" if OWN_CHECK.search(Path(sys.argv[0]).read_text()) else "runs"
    found = findings(log.reports)
    reason = "; ".join(part for part in (found, reason) if part)
    return Outcome(file, target, status, reason, int(counts["kernels"]), int(counts["launches"]), round(seconds, 1))


def findings(reports: Iterable[Any]) -> str:
    """What the virtual GPU found, by kind: how often, and the first of each."""
    found = [finding for report in reports for finding in report.findings]
    counts = Counter(finding.kind for finding in found)
    first = {finding.kind: " ".join(finding.message.split())[:110] for finding in reversed(found)}
    return "; ".join(f"found {kind} x{count}: {first[kind]}" for kind, count in counts.items())


def _is_check(error: BaseException) -> bool:
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    places = ("/tilelang-examples/", "testing", "profiler.py", "utils/tensor.py")
    return isinstance(error, AssertionError) and any(place in last for place in places)


def _stage(error: BaseException) -> str:
    if not isinstance(error, tw.errors.TilewrightError):
        return ""
    module = type(error).__module__.split(".")
    return f"[{module[1] if len(module) > 1 else module[0]}] "


def _where(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/tilelang-examples/" in f.filename]
    return f"(line {frames[-1].lineno})" if frames else ""


def run_one(path: Path, file: str, target: str, *, zeroed: bool) -> Outcome:
    """Run one example in this process, which is not fit for anything else afterwards."""
    log = Log()
    os.environ["TILEWRIGHT_TARGET"] = target
    sys.argv = [str(path), *ARGUMENTS.get(file, ())]
    sys.path.insert(0, str(path.parent))
    os.chdir(path.parent)
    torch.manual_seed(0)
    began, error = time.monotonic(), None
    try:
        machine = redirect(target, log, zeroed=zeroed)
        reach = {"memory": machine} if file in POINTERS else {}
        with machine, recording(**reach) as reports:
            log.reports = reports
            runpy.run_path(str(path), run_name="__main__")
    except BaseException as raised:
        error = raised
        traceback.print_exc()
    return outcome_of(file, target, error, log, time.monotonic() - began)


def child(path: Path, file: str, target: str, output: Path, logs: Path, *, zeroed: bool) -> None:
    """The whole life of a forked child: run, write the outcome, leave."""
    os.setsid()
    handle = os.open(logs, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    output.write_text(json.dumps(asdict(run_one(path, file, target, zeroed=zeroed))))
    os._exit(0)


def log_name(file: str, target: str) -> str:
    """The name, less its ending, of an example's output and outcome."""
    return f"{file.replace('/', '+')}.{target}"


def kept(file: str, target: str, logs: Path) -> Outcome | None:
    """The outcome that an earlier run left in the folder of logs."""
    output = logs / f"{log_name(file, target)}.json"
    if not output.exists():
        return None
    printed = output.with_suffix(".log").read_text(errors="replace")
    return judged(Outcome(**json.loads(output.read_text())), printed)


def run_forked(root: Path, file: str, target: str, timeout: float, logs: Path, *, zeroed: bool) -> Outcome:
    """Run one example in a child of this process, which has imported everything already."""
    name = log_name(file, target)
    output = logs / f"{name}.json"
    output.unlink(missing_ok=True)
    zeroed = zeroed or file in ZEROED
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            child(root / file, file, target, output, logs / f"{name}.log", zeroed=zeroed)
        os._exit(1)
    deadline = time.monotonic() + timeout
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return Outcome(file, target, "fails", f"over {timeout:.0f} s", seconds=timeout)
        time.sleep(0.1)
    if not output.exists():
        return Outcome(file, target, "fails", "the process died")
    return judged(Outcome(**json.loads(output.read_text())), (logs / f"{name}.log").read_text(errors="replace"))


def judged(outcome: Outcome, printed: str) -> Outcome:
    """The outcome, given what the example printed: some print their verdict and end well all the same."""
    if outcome.status not in ("runs", "matches"):
        return outcome
    failed = next((line.strip()[:200] for line in printed.splitlines() if PRINTED_FAILURE.search(line)), "")
    if failed:
        return replace(outcome, status="mismatch", reason=f"{outcome.reason} printed: {failed}".strip())
    return replace(outcome, status="matches") if PRINTED_SUCCESS.search(printed) else outcome


def examples(root: Path, only: Iterable[str]) -> Iterator[str]:
    """The files that are examples of these targets, by their path in the checkout."""
    for path in sorted(root.rglob("*.py")):
        file = path.relative_to(root).as_posix()
        if any(fnmatch.fnmatch(file, pattern) for pattern in NO_EXAMPLE):
            continue
        if any(fnmatch.fnmatch(file, pattern) for pattern in only):
            yield file


def table(outcomes: Iterable[Outcome]) -> str:
    """The outcomes as a Markdown table, with totals by target."""
    text = io.StringIO()
    rows = sorted(outcomes, key=lambda one: (one.file, one.target))
    for target in sorted({one.target for one in rows}):
        counts = Counter(one.status for one in rows if one.target == target)
        text.write(f"{target}: " + ", ".join(f"{n} {status}" for status, n in counts.most_common()) + "\n")
    text.write("\n| file | target | status | kernels | launches | s | reason |\n|---|---|---|---|---|---|---|\n")
    for one in rows:
        reason = re.sub(r"\s+", " ", one.reason).replace("|", "/")
        cells = (one.file, one.target, one.status, one.kernels, one.launches, one.seconds, reason)
        text.write(f"| {' | '.join(map(str, cells))} |\n")
    return text.getvalue()


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of TileLang; its examples/ is copied, not changed")
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns of files under examples/")
    parser.add_argument("--target", nargs="*", default=["sm_80", "sm_90a"])
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds of one example")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--zeroed", action="store_true", help="clear fresh memory, which some examples read")
    parser.add_argument("--logs", type=Path, help="folder of the outputs, kept")
    parser.add_argument("--resume", action="store_true", help="take the outcomes that --logs holds already")
    parser.add_argument("--report", type=Path, help="file of the table")
    return parser.parse_args()


def main() -> None:
    """Run and print the table."""
    given = _arguments()
    torch.set_num_threads(1)  # children are forks: no thread of a pool may be lost
    trace_rules.get_torch_obj_rule_map()  # made once, while torch.cuda is still itself
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "tilelang-examples"
        copy(given.checkout / "examples", root, EDITS)
        logs = given.logs or Path(scratch) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        work = []
        outcomes = []
        for file in examples(root, given.only):
            for target in given.target:
                reason = next((why for pattern, why in ELSEWHERE.items() if fnmatch.fnmatch(file, pattern)), "")
                found = kept(file, target, logs) if given.resume else None
                if reason or found:
                    outcomes.append(found or Outcome(file, target, "elsewhere", reason))
                else:
                    work.append((file, target))
        with ThreadPoolExecutor(given.jobs) as pool:
            for one in pool.map(lambda pair: run_forked(root, *pair, given.timeout, logs, zeroed=given.zeroed), work):
                print(f"{one.status:9} {one.target:7} {one.seconds:6.1f} {one.file} {one.reason[:150]}", flush=True)
                outcomes.append(one)
    text = table(outcomes)
    if given.report:
        given.report.write_text(text)
    print(text.split("\n\n", maxsplit=1)[0])


if __name__ == "__main__":
    main()
