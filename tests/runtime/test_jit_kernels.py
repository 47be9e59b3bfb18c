"""Unmodified TileLang kernels under ``jit`` on CPU tensors, against torch in float64, for sm_80 and sm_90a."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from tilewright.runtime import Kernel, stats, use


def _load():
    path = Path(__file__).with_name("tilelang_kernels.py")
    spec = importlib.util.spec_from_file_location("tilelang_kernels_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kernels = _load()


@pytest.fixture(params=["sm_80", "sm_90a"], autouse=True)
def target(request):
    with use(target=request.param):
        yield request.param


def random(*shape, dtype=torch.float16):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def close(result, reference, dtype):
    """Within twice the rounding of the result type, of the largest value."""
    bound = 2 * torch.finfo(dtype).eps * reference.abs().max() + 1e-12
    assert result.dtype == dtype
    assert (result.double() - reference).abs().max() <= bound


@pytest.mark.parametrize("shape", [(70, 100), (1, 16), (40, 1)])
def test_lazy_copy(shape):
    a = random(*shape)
    assert torch.equal(kernels.lazy_copy(*shape)(a), a)


def test_eager_copy():
    a, b = random(64, 96), torch.zeros(64, 96, dtype=torch.float16)
    assert kernels.eager_copy(a, b) is None
    assert torch.equal(b, a)


@pytest.mark.parametrize("style", ["lazy", "eager"])
def test_softmax(style):
    x = random(10, 256, dtype=torch.float32)
    y = kernels.lazy_softmax(10, 256)(x) if style == "lazy" else kernels.eager_softmax(x)
    close(y, torch.softmax(x.double(), 1), torch.float32)


def test_lazy_matmul_relu():
    a, b, c = random(96, 64), random(64, 80), torch.zeros(96, 80, dtype=torch.float16)
    kernels.lazy_matmul_relu(96, 80, 64)(a, b, c)
    close(c, (a.double() @ b.double()).relu(), torch.float16)


def test_eager_matmul_relu():
    a, b = random(96, 64), random(64, 80)
    reference = (a.double() @ b.double()).relu()
    close(kernels.eager_matmul_relu(a, b, out_dtype="float16"), reference, torch.float16)
    assert (kernels.eager_matmul_relu(a, b).double() - reference).abs().max() <= 1e-5 * reference.max()


def attention(q, k, v):
    scores = q.double() @ k.double().transpose(-1, -2) / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v.double()


def test_lazy_attention():
    q, k, v = (random(1, 128, 2, 64 + 0 * i) * (1 + i) for i in range(3))
    output = kernels.lazy_attention(1, 2, 128, 64)(q, k, v)
    reference = attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)
    assert (output.double() - reference).abs().max() <= 4e-3 * reference.abs().max()


def test_eager_attention():
    q, k, v = (random(64, 64) * (1 + i) for i in range(3))
    reference = attention(q, k, v)
    assert (kernels.eager_attention(q, k, v, 0.125).double() - reference).abs().max() <= 4e-3 * reference.abs().max()


def test_dynamic_matmul_by_packed_parameters(recorded):
    """The CUDA device with a recording driver: tensor maps and scalars reach the kernel as packed bytes."""
    kernel = kernels.lazy_dynamic_matmul(32, 32, 32)
    a, b, c = random(72, 136), random(136, 40), torch.zeros(72, 40)
    packed, driver = recorded(Kernel(kernel.artifact), a, b, c)
    packed(a, b, c)
    reference = a.double() @ b.double()
    assert (c.double() - reference).abs().max() <= 1e-5 * reference.abs().max()
    assert torch.equal(kernel(a, b), c)
    assert {entry[0].tensor for entry in driver.maps} == ({"A", "B"} if kernel.target.has_tma else set())


def test_dynamic_shapes_compile_once():
    kernel = kernels.lazy_dynamic_add()
    before = stats()["compiles"] + stats()["cache_hits"]
    for n in (1, 127, 128, 300):
        a, b = random(n, dtype=torch.float32), torch.arange(float(n))
        assert torch.equal(kernel(a, b), a + b)
        out = torch.zeros(n)
        kernels.eager_dynamic_scale(a, out)
        assert torch.equal(out, a * 3.0)
    assert stats()["compiles"] + stats()["cache_hits"] - before <= 1


def test_no_arguments():
    assert kernels.lazy_nothing()() is None
