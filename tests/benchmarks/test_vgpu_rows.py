"""The rows of the benchmark of the virtual GPU, without their timings, and the kernels that they measure."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
import torch

import tilewright
from tilewright import runtime
from tilewright.benchmarks import benchmarks, kernels, vgpu
from tilewright.benchmarks.comparison import MeasurementFailed


@pytest.fixture
def asked(monkeypatch):
    calls = []

    def found(function, *arguments, **variables):
        calls.append((function.__name__, arguments, variables))
        return 0.25, 2.0

    monkeypatch.setattr(vgpu, "found", found)
    return calls


def test_rows_without_triton(asked, monkeypatch):
    monkeypatch.setattr(vgpu, "has_triton", lambda: False)
    rows = vgpu.measure()
    attention = "causal attention 1x8x1024x128 f16 on"
    names = ("", ", two host threads", ", checks always on", ", race detection")
    expected = [
        text
        for target in ("sm_90a", "sm_80")
        for text in (
            f"gemm 1024 f16 on {target}{names[0]}",
            f"{attention} {target}",
            *(f"gemm 1024 f16 on {target}{name}" for name in names[1:]),
        )
    ]
    assert [row.what for row in rows] == expected
    assert [(row.goal, row.limit) for row in rows] == [
        (None, 0.35),
        (None, 0.6),
        (1.6, None),
        (1 / 1.3, None),
        (0.25, None),
    ] * 2
    assert {(row.ours, row.peer, row.unit) for row in rows} == {(0.25, 2.0, "s")}
    assert not any(variables for _, _, variables in asked)


def test_rows_against_triton(asked, monkeypatch):
    monkeypatch.setattr(vgpu, "has_triton", lambda: True)
    rows = vgpu.measure()[10:]
    assert [(row.what, row.goal) for row in rows] == [
        ("gemm 512 f16, tile 128x128x64, on sm_90a", 8.0),
        ("gemm 1024 f16, tile 128x128x64, on sm_90a", 8.0),
        ("gemm 512 f16, tile 128x128x64, on sm_80", 8.0),
        ("gemm 1024 f16, tile 128x128x64, on sm_80", 8.0),
        ("softmax 1024x1024 f16 on sm_90a", None),
        ("softmax 1024x1024 f16 on sm_80", None),
    ]
    assert all(row.peer_name == "Triton's interpreter" and row.met for row in rows)
    assert [variables for _, _, variables in asked[10:]] == [{"TRITON_INTERPRET": "1", "OPENBLAS_NUM_THREADS": "1"}] * 6


def test_a_note_says_how_to_install_triton(monkeypatch):
    monkeypatch.setattr(vgpu, "has_triton", lambda: False)
    text = benchmarks["vgpu"].note()
    assert text == "no rows against Triton's interpreter: pip install 'tilewright[triton]'"
    monkeypatch.setattr(vgpu, "has_triton", lambda: True)
    assert benchmarks["vgpu"].note() == ""
    assert benchmarks["import"].note() == ""


def test_a_child_measures_one_function(monkeypatch):
    seen = []

    def child(arguments, environment):
        seen.append((arguments, environment))
        return {"ours": 1.0, "peer": 3.0}

    monkeypatch.setattr(vgpu, "child", child)
    assert vgpu.found(vgpu.triton_gemm_seconds, "sm_80", 512, TRITON_INTERPRET="1") == (1.0, 3.0)
    (((flag, code), environment),) = seen
    assert flag == "-c"
    compile(code, "child", "exec")
    assert code.endswith("print(json.dumps(triton_gemm_seconds('sm_80', 512)))")
    assert environment == {"OPENBLAS_CORETYPE": None, "OPENBLAS_L2_SIZE": None, "TRITON_INTERPRET": "1"}


def test_sides_that_disagree_are_not_measured():
    one, other = torch.ones(4), torch.tensor([1.0, 1.0, 1.0, 1.1])
    assert set(vgpu.in_turns(1, {"ours": lambda: one, "peer": lambda: one * 1.01})) == {"ours", "peer"}
    with pytest.raises(MeasurementFailed, match="peer and ours disagree"):
        vgpu.in_turns(1, {"ours": lambda: one, "peer": lambda: other})
    with pytest.raises(MeasurementFailed, match="peer and ours disagree"):
        vgpu.in_turns(1, {"ours": lambda: one, "peer": lambda: one * float("nan")})


def test_a_faulty_kernel_is_not_measured(monkeypatch):
    asked = []

    def recording(**options):
        asked.append(options)
        return contextlib.nullcontext([SimpleNamespace(findings=("a race",))])

    monkeypatch.setattr(runtime, "recording", recording)
    with pytest.raises(MeasurementFailed, match=r"the measured kernel is faulty\n.*first = a race"):
        vgpu.recorded(lambda: None, checks=("race",))()
    assert asked == [{"checks": ("race",)}]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_attention_kernel_is_causal_attention(target):
    batch, heads, length, dim = shape = (2, 2, 256, 64)
    q, k, v = (torch.randn(shape, dtype=torch.float16) for _ in range(3))
    found = tilewright.compile(kernels.attention(batch, heads, length, dim), target=target, out_idx=-1)(q, k, v)
    scores = q.double() @ k.double().transpose(-1, -2) / dim**0.5
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    expected = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v.double()
    torch.testing.assert_close(found.double(), expected, atol=4e-3, rtol=4e-3)


def test_the_softmax_kernel_is_a_softmax():
    x = torch.randn(8, 256, dtype=torch.float16) * 4
    found = tilewright.compile(kernels.softmax(8, 256), target="sm_80", out_idx=-1)(x)
    torch.testing.assert_close(found.double(), x.double().softmax(-1), atol=1e-4, rtol=2e-3)
