"""Kernels compiled ahead: what a computation needs is found without a launch, compiled in children, ready later."""

import pytest
import torch

import tilewright as tw
from tilewright.errors import TilewrightError

X = torch.randn(5, 48, dtype=torch.float16)
W = torch.randn(48, 24, dtype=torch.float16)


def normed(x, weight):
    return tw.ops.rms_norm(x, weight)


def step():
    x = X.clone().requires_grad_()
    normed(x, torch.ones(48, dtype=torch.float16)).pow(3).sum().backward()
    return x.grad


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))


def test_children_compile_what_forward_and_backward_launch(fresh):
    ready = tw.warmup(step, targets=["sm_80"], processes=2)
    assert ready.compiled == ready.kernels == len(ready.names) == 2  # forward and backward
    assert {name.rsplit(" on ")[1] for name in ready.names} == {"sm_80"}
    assert tw.warmup(step, targets=["sm_80"], processes=2).compiled == 0
    compiles = tw.stats()["compiles"]
    with tw.use(target="sm_80"):
        gradient = step()
    assert tw.stats()["compiles"] == compiles
    x = X.double().requires_grad_()
    torch.nn.functional.rms_norm(x, (48,), eps=1e-6).pow(3).sum().backward()
    assert (gradient - x.grad).abs().max() <= 2e-2 * x.grad.abs().max()


def test_nothing_is_launched():
    launches = tw.stats()["launches"]
    assert tw.warmup(lambda: tw.ops.gemm(normed(X, None), W), processes=1).kernels == 2
    assert tw.stats()["launches"] == launches


def test_what_an_operator_says_of_its_arguments_is_raised():
    with pytest.raises(TilewrightError, match="rms_norm"):
        tw.warmup(lambda: normed(X, torch.ones(7)))


@pytest.mark.parametrize(
    ("calls", "options", "message"),
    [
        ((), {}, "warmup needs a call.*lambda: tw.ops.rms_norm"),
        ((step, X), {}, "warmup: call 1 is Tensor, not a function.*wrap it: lambda"),
        ((step,), {"processes": 0}, "warmup: processes = 0.*give at least 1"),
        ((step,), {"targets": ["sm_9"]}, "sm_9.*sm_90a"),
    ],
)
def test_refusals(calls, options, message):
    with pytest.raises(TilewrightError, match=f"(?s){message}"):
        tw.warmup(*calls, **options)
