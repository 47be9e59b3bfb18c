"""The commands, end to end, on small kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.benchmarks import import_, vgpu

Command = Callable[..., Any]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KERNELS = """
import tilewright as tw
from tilewright import language as T


@tw.kernel
def scale(dtype="float32", factor=2.0, block=128):
    n = T.dynamic("n")

    @T.prim_func
    def main(x: T.Tensor((n,), dtype), y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=block) as b:
            for i in T.Parallel(block):
                y[b * block + i] = x[b * block + i] * factor

    return main
"""
RACY = """
import tilewright as tw
from tilewright import language as T


@tw.kernel
def reverse(n=128):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        T.func_attr({"tilelang_pass_configs": {"tl.disable_thread_storage_sync": True}})
        with T.Kernel(1, threads=n):
            s = T.alloc_shared((n,), "float32")
            t = T.get_thread_binding()
            s[t] = x[t]
            y[t] = s[n - 1 - t]

    return main
"""
RIGHT = "\n\ndef reference(x, factor):\n    return x * factor\n"
WRONG = "\n\ndef reference(x):\n    return x * 2.001\n"
TWO = "\n\ndef reference(x):\n    return x, x\n"
STRANGE = "\n\ndef reference(z):\n    return z\n"


@pytest.fixture
def kernels(tmp_path: Path) -> Callable[[str], str]:
    def write(reference: str) -> str:
        (tmp_path / "kernels.py").write_text(KERNELS + reference)
        return f"{tmp_path / 'kernels.py'}:scale"

    return write


def test_doctor_finds_everything_here(tilewright: Command) -> None:
    ended = tilewright("doctor", "--json")
    assert ended.status == 0, ended.json["missing"]
    found = ended.json
    assert found["missing"] == []
    assert found["packages"]["tilelang"] == "0.1.15"
    assert found["vgpu"]["found"]
    assert found["cache"]["writable"]
    assert {"sm_80", "sm_89", "sm_90a"} <= set(found["targets"]["known"])
    shown = tilewright("doctor")
    assert "nothing is missing" in shown.out


def test_doctor_exits_1_and_says_what_is_missing(
    tilewright: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CUDA_HOME", str(tmp_path))
    ended = tilewright("doctor", "--json")
    assert ended.status == 1
    assert "nvrtc" in {one["part"] for one in ended.json["missing"]}
    assert all(one["why"] and one["remedy"] for one in ended.json["missing"])


def test_doctor_sees_a_cache_that_cannot_be_written(
    tilewright: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(file / "cache"))
    ended = tilewright("doctor", "--json")
    assert ended.status == 1
    assert [one["part"] for one in ended.json["missing"]] == ["cache"]


def test_ops_lists_gemm(tilewright: Command) -> None:
    ended = tilewright("ops", "--json")
    assert ended.status == 0
    (gemm,) = [one for one in ended.json["operators"] if one["name"] == "gemm"]
    assert {"m", "n", "k", "dtype", "bias", "activation", "transpose_a", "transpose_b", "batch"} <= set(
        gemm["settings"]
    )
    assert {"sm_80", "sm_89", "sm_90a"} <= set(gemm["targets"])
    assert "gemm" in tilewright("ops").out


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_run_compares_with_the_reference(tilewright: Command, kernels: Callable[[str], str], target: str) -> None:
    ended = tilewright("run", kernels(RIGHT), "--set", "n=1000", "--set", "factor=3.0", "--target", target, "--json")
    assert ended.status == 0, ended.err
    found = ended.json
    assert found["passed"]
    assert found["target"] == target
    assert found["error"] <= found["tolerance"]
    assert found["tensors"] == {"x": "float32 (1000)", "y": "float32 (1000)"}
    assert found["settings"] == {"n": 1000, "factor": 3.0}
    assert found["device"] == "vgpu"
    assert found["instructions"] > 0
    assert found["compile_ms"] > 0
    assert found["run_ms"] > 0


def test_run_exits_1_beyond_the_tolerance(tilewright: Command, kernels: Callable[[str], str]) -> None:
    ended = tilewright("run", kernels(WRONG), "--set", "n=256", "--json")
    assert ended.status == 1
    assert not ended.json["within"]
    assert ended.json["error"] == pytest.approx(0.001 * ended.json["largest"] / 2.001, rel=1e-3)
    assert "EXCEEDED" in tilewright("run", kernels(WRONG), "--set", "n=256").out


def test_run_without_a_reference_says_so(tilewright: Command, kernels: Callable[[str], str]) -> None:
    ended = tilewright("run", kernels(""), "--set", "n=256")
    assert ended.status == 0
    assert "nothing was compared" in ended.out
    assert tilewright("run", kernels(""), "--set", "n=256", "--json").json["reference"] is False


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (TWO, "reference returned 2 values, and the kernel writes 1 tensors"),
        (STRANGE, "there is no kernel argument or setting for the reference's parameter 'z'"),
    ],
)
def test_run_refuses_a_reference_that_does_not_fit(
    tilewright: Command, kernels: Callable[[str], str], reference: str, message: str
) -> None:
    ended = tilewright("run", kernels(reference), "--set", "n=256", "--json")
    assert ended.status == 2
    assert message in ended.json["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "size=4"], "there is no setting 'size'"),
        ([], "scale needs a size for n"),
        (["--set", "n=many"], "--set n=many is a size or a scalar argument, so it must be a number"),
        (["--set", "n"], "--set 'n' is not name=value"),
        (["--set", "n=4", "--target", "sm_91"], "unknown target 'sm_91'"),
        (["--set", "n=4", "--schedule", "absent.json"], "--schedule absent.json cannot be read"),
    ],
)
def test_wrong_arguments_exit_2_with_a_message(
    tilewright: Command, kernels: Callable[[str], str], arguments: list[str], message: str
) -> None:
    ended = tilewright("run", kernels(RIGHT), *arguments, "--json")
    assert ended.status == 2
    assert message in ended.json["error"]["message"]
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
def test_run_an_operator(tilewright: Command, target: str) -> None:
    sizes = ["--set", "m=100", "--set", "n=72", "--set", "k=40", "--set", "dtype=bfloat16"]
    extras = ["--set", "bias=true", "--set", "activation=gelu", "--set", "transpose_b=true", "--set", "batch=2"]
    ended = tilewright("run", "gemm", *sizes, *extras, "--target", target, "--json")
    assert ended.status == 0, ended.err
    found = ended.json
    assert found["tensors"] == {
        "a": "bfloat16 (2, 100, 40)",
        "b": "bfloat16 (2, 40, 72)",
        "bias": "bfloat16 (72)",
        "result": "bfloat16 (2, 100, 72)",
    }
    assert found["error"] <= found["tolerance"]
    assert found["tolerance"] == pytest.approx(max(2 * found["torch_error"], 2**-7 * found["largest"]))
    assert found["instructions"] > 0
    assert found["kernels"][0].startswith("gemm_")


@pytest.mark.parametrize(("target", "families"), [("sm_80", {"cp_async", "mma"}), ("sm_90a", {"tma_load", "wgmma"})])
def test_the_default_matmul_uses_the_units_of_its_target(tilewright: Command, target: str, families: set[str]) -> None:
    ended = tilewright("show", "gemm", "--stage", "resources", "--target", target, "--json")
    assert ended.status == 0, ended.err
    assert families <= set(ended.json["instructions"])
    assert all(one["spill_stores"] == one["spill_loads"] == 0 for one in ended.json["resources"])


def test_an_unknown_setting_of_an_operator_lists_those_there_are(tilewright: Command) -> None:
    ended = tilewright("run", "gemm", "--set", "transpose=true", "--json")
    assert ended.status == 2
    assert "there is no setting 'transpose'" in ended.json["error"]["message"]
    assert "transpose_a" in ended.json["error"]["message"]


def test_an_unknown_operator_lists_those_there_are(tilewright: Command) -> None:
    ended = tilewright("run", "gem", "--json")
    assert ended.status == 2
    assert "there is no operator 'gem'" in ended.json["error"]["message"]
    assert "did you mean 'gemm'?" in ended.json["error"]["message"]


@pytest.mark.parametrize(
    ("stage", "held"),
    [
        ("outline", "parallel"),
        ("program", "T.prim_func"),
        ("scheduled", "T.prim_func"),
        ("passes", "tl.LayoutInference"),
        ("tl.LayoutInference", "T.prim_func"),
        ("cuda", "__global__"),
        ("ptx", ".visible .entry"),
        ("sass", "EXIT"),
        ("plan", "launches"),
        ("lines", "kernels.py"),
    ],
)
def test_show_prints_every_stage(tilewright: Command, kernels: Callable[[str], str], stage: str, held: str) -> None:
    ended = tilewright("show", kernels(RIGHT), "--stage", stage, "--target", "sm_80", "--json")
    assert ended.status == 0, ended.err
    assert ended.json["stage"] == stage
    assert held in ended.json["text"]


def test_show_resources(tilewright: Command, kernels: Callable[[str], str]) -> None:
    ended = tilewright("show", kernels(RIGHT), "--stage", "resources", "--target", "sm_80", "--json")
    assert ended.status == 0, ended.err
    (kernel,) = ended.json["resources"]
    assert kernel["spill_stores"] == kernel["spill_loads"] == 0
    assert 0 < kernel["registers"] <= 255
    assert ended.json["instructions"]["global_store"] >= 1


def test_an_unknown_stage_lists_those_there_are(tilewright: Command, kernels: Callable[[str], str]) -> None:
    ended = tilewright("show", kernels(RIGHT), "--stage", "cude", "--json")
    assert ended.status == 2
    assert "did you mean 'cuda'?" in ended.json["error"]["message"]


def test_an_unknown_benchmark_lists_those_there_are(tilewright: Command) -> None:
    ended = tilewright("bench", "imports", "--json")
    assert ended.status == 2
    assert "did you mean 'import'?" in ended.json["error"]["message"]


def test_a_benchmark_reports_both_sides(tilewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_, "REPEATS", 1)
    ended = tilewright("bench", "import", "--json")
    (row,) = ended.json["rows"]
    assert row["peer_name"] == "import tilelang"
    assert row["ratio"] == pytest.approx(row["peer"] / row["ours"])
    assert ended.status == (0 if row["met"] else 1)


def test_a_benchmark_says_what_it_leaves_out(tilewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vgpu, "found", lambda *_, **__: (0.25, 2.0))
    monkeypatch.setattr(vgpu, "has_triton", lambda: False)
    said = "no rows against Triton's interpreter: pip install 'tilewright[triton]'"
    ended = tilewright("bench", "vgpu", "--json")
    assert (ended.status, ended.json["note"], len(ended.json["rows"])) == (0, said, 10)
    assert said in tilewright("bench", "vgpu").out.splitlines()


def test_run_compares_tf32_with_what_tf32_gives(tilewright: Command) -> None:
    sizes = ("--set", "m=96", "--set", "n=64", "--set", "k=128")
    ended = tilewright(
        "run", "gemm", *sizes, "--set", "dtype=float32", "--set", "tf32=1", "--target", "sm_80", "--json"
    )
    assert ended.status == 0
    # full float32 is a thousand times nearer
    assert ended.json["torch_error"] > 1e-3
    assert 1e-3 < ended.json["error"] <= 2 * ended.json["torch_error"]


def test_check_of_a_right_kernel_and_operator(tilewright: Command, kernels: Callable[[str], str]) -> None:
    for subject, sizes in ((kernels(RIGHT), ("n=300",)), ("gemm", ("m=32", "n=48", "k=64"))):
        settings = [word for size in sizes for word in ("--set", size)]
        ended = tilewright("check", subject, *settings, "--target", "sm_80", "--json")
        assert ended.status == 0, ended.err
        assert ended.json["ok"] is True
        assert ended.json["modes"] == ["eager", "lazy", "skew", "skew-reverse", "lazy-reverse", "random"]
        assert ended.json["findings"] == []


def test_check_compares_with_the_reference(tilewright: Command, kernels: Callable[[str], str]) -> None:
    ended = tilewright("check", kernels(WRONG), "--set", "n=300", "--target", "sm_80", "--json")
    assert ended.status == 1
    assert ended.json["findings"] == []
    assert len(ended.json["differences"]) == 6
    assert re.match(r"mode eager: off by \d\S* from the reference, more than \d", ended.json["differences"][0])


def test_check_of_a_kernel_without_its_barrier(tilewright: Command, tmp_path: Path) -> None:
    path = tmp_path / "racy.py"
    path.write_text(RACY)
    ended = tilewright("check", f"{path}:reverse", "--target", "sm_80", "--json")
    assert ended.status == 1
    race = next(f for f in ended.json["findings"] if f["kind"] == "race")
    assert race["sources"][-1]["file"] == str(path)
    lines = RACY.splitlines()
    assert "s[" in lines[race["sources"][-1]["line"] - 1]
