"""``make demo``: matmul, softmax and RMSNorm for two GPU generations, run on this machine and compared with torch.

Prints one table and leaves the generated CUDA, PTX and machine code in ``demo-output/``.
"""

import re
from pathlib import Path

from tilewright.cli import Outcome, Trial, choice_of, finish, subject_of, table

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "demo-output"
TARGETS = ("sm_80", "sm_90a")
SUBJECTS = (
    ("gemm", {"m": 512, "n": 512, "k": 512, "dtype": "float16"}),
    (f"{HERE / 'softmax.py'}:softmax", {"m": 256, "n": 1000}),
    (f"{HERE / 'rms_norm.py'}:rms_norm", {"m": 256, "n": 1024}),
)
COLUMNS = ("kernel", "target", "device", "tensors", "error", "tolerance", "compile ms", "run ms", "instructions")


def write_code(trial: Trial, name: str) -> None:
    stem = OUTPUT / f"{name}.{trial.kernel.target.name}"
    for suffix, text in ((".cu", trial.kernel.cuda), (".ptx", trial.kernel.ptx), (".sass", trial.kernel.sass)):
        stem.with_name(stem.name + suffix).write_text(text)


def row(trial: Trial, name: str) -> tuple:
    shapes = ", ".join(f"{tensor} {re.sub(r'^[a-z0-9_]+ ', '', text)}" for tensor, text in trial.tensors.items())
    found = trial.comparison
    return (
        name,
        trial.kernel.target.name,
        trial.device,
        shapes,
        found.error,
        found.tolerance,
        round(trial.compile_ms),
        round(trial.run_ms),
        "not counted" if trial.instructions is None else trial.instructions,
    )


def demo() -> Outcome:
    OUTPUT.mkdir(exist_ok=True)
    rows, passed = [], True
    for subject, settings in SUBJECTS:
        name = subject.rpartition(":")[2]
        for target in TARGETS:
            trial = subject_of(subject).trial(settings, choice_of(target, None))
            write_code(trial, name)
            rows.append(row(trial, name))
            passed = passed and trial.passed
    verdict = "all rows within tolerance" if passed else "NOT all rows within tolerance"
    places = f"generated code: {OUTPUT.name}/<kernel>.<target>.cu, .ptx and .sass"
    note = "error: largest absolute difference from float64; tolerance: twice that of torch's own result"
    title = "torch results, reproduced by generated kernels"
    data = {"rows": [dict(zip(COLUMNS, one, strict=True)) for one in rows], "passed": passed}
    return Outcome(data, (table(title, COLUMNS, rows), note, places, verdict), passed)


if __name__ == "__main__":
    finish(demo, as_json=False)
