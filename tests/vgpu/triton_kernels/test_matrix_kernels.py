"""Kernels on matrix units and tensor maps as Triton compiles them, against float64."""

from __future__ import annotations

import math

import pytest
import torch
from launches import MODES, cases, clean, run

from tilewright import vgpu

FORMATS = {
    "matmul_f16": (torch.float16, torch.float16),
    "matmul_bf16": (torch.bfloat16, torch.float32),
    "matmul_tf32": (torch.float32, torch.float32),
    "matmul_f64": (torch.float64, torch.float64),
    "matmul_i8": (torch.int8, torch.int32),
    "matmul_e4": (torch.float8_e4m3fn, torch.float32),
    "matmul_e5": (torch.float8_e5m2, torch.float32),
    "matmul_cluster": (torch.float16, torch.float16),
}
ROWS = {"matmul_f64": 32, "matmul_cluster": 128}
# a product of two rounded operands is exact: what is left is the order of float32 additions, or the result's rounding
TOLERANCE = {torch.float16: 2e-3, torch.float32: 2e-5, torch.float64: 1e-13, torch.int32: 0}
seeded = torch.Generator()


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=seeded).to(dtype)


def close(got, want, tolerance):
    scale = want.abs().max().item()
    worst = (got.double() - want).abs().max().item()
    assert worst <= tolerance * scale, f"{worst} of {scale}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "target"), cases(*FORMATS))
def test_matmul(name, target, mode):
    seeded.manual_seed(1)
    dtype, result = FORMATS[name]
    m, n, k = 150, 80, 112  # edge tiles in every direction
    if dtype == torch.int8:
        a, b = (torch.randint(-128, 128, s, generator=seeded, dtype=dtype) for s in ((m, k), (k, n)))
    else:
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    c = torch.zeros(m, n, dtype=result)
    grid = -(-m // ROWS.get(name, 64)) * -(-n // 32)
    clean(name, target, grid, [a, b, c, m, n, k], mode)
    want = a.double() @ b.double()
    close(c, want, 2e-3 if name == "matmul_tf32" else TOLERANCE[result])  # tf32 drops 13 bits of both operands


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "target"), cases("split_k", "split_k_f16"))
def test_split_k(name, target, mode):
    seeded.manual_seed(2)
    result = torch.float16 if name.endswith("f16") else torch.float32
    m, n, k = 128, 64, 256
    a, b = normal(m, k, dtype=torch.float16), normal(k, n, dtype=torch.float16)
    c = torch.zeros(m, n, dtype=result)
    clean(name, target, (m // 64, n // 32, 4), [a, b, c, m, n, k], mode)
    close(c, a.double() @ b.double(), 4 * TOLERANCE[result])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "target"), cases("attention", "attention_full"))
def test_attention(name, target, mode):
    seeded.manual_seed(3)
    causal = name == "attention"
    dtype, d = (torch.float16, 32) if causal else (torch.bfloat16, 64)
    q, k, v = (normal(2, 128, d, dtype=dtype) for _ in range(3))
    out, lse = torch.zeros_like(q), torch.zeros(2, 128)
    scale = 1 / math.sqrt(d)
    clean(name, target, (2, 2), [q, k, v, out, lse, scale, 128], mode)
    s = q.double() @ k.double().mT * scale
    if causal:
        s = s.masked_fill(torch.ones(128, 128, dtype=torch.bool).triu(1), -math.inf)
    close(out, s.softmax(-1) @ v.double(), 1e-3 if causal else 8e-3)
    close(lse, s.logsumexp(-1), 1e-5)


@pytest.mark.parametrize(("name", "target"), cases("scaled"))
def test_block_scales(name, target):
    """Scaled operands become bfloat16 by packing a register half that nothing wrote and nothing uses."""
    seeded.manual_seed(4)
    m, n, k = 64, 32, 64
    a = normal(m, k, dtype=torch.float8_e4m3fn)
    codes = torch.randint(0, 16, (k, n), generator=seeded)
    packed = (codes[0::2] | codes[1::2] << 4).to(torch.uint8)
    sa, sb = (torch.randint(120, 134, (rows, k // 32), generator=seeded, dtype=torch.uint8) for rows in (m, n))
    c = torch.zeros(m, n)
    clean(name, target, 1, [a, sa, packed, sb, c])
    e2m1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
    b = e2m1[codes & 7] * (1 - 2.0 * (codes >> 3))
    left, right = (torch.exp2(s.double() - 127).repeat_interleave(32, 1) for s in (sa, sb))
    close(c, (a.double() * left) @ (b * right.mT), 1e-6)


def map_arguments(x, rows, columns=64):
    """A descriptor parameter of Triton: the tensor map with its swizzle, extents, strides."""
    size = x.element_size()
    box = [columns, rows]
    tile = vgpu.TensorMap(x, "float16", [x.shape[1], x.shape[0]], [x.shape[1] * size], box, [1, 1], swizzle=3)
    return [tile, x.shape[0], x.shape[1], x.stride(0), x.stride(1)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["tma_matmul", "tma_matmul_cluster", "persistent", "specialised"])
def test_tensor_maps(name, mode):
    """The results are right, and mbarrier.init that bar.sync alone orders before the transfers is no finding.

    With 64 rows both consumers of the warp specialisation store the same tile, which is told.
    """
    seeded.manual_seed(5)
    m, n, k = 256, 128, 192
    a, b = normal(m, k, dtype=torch.float16), normal(n, k, dtype=torch.float16)
    c = torch.zeros(m, n, dtype=torch.float16)
    maps = [v for x in (a, b, c) for v in map_arguments(x, 64)]
    if name.startswith("tma"):
        rows = 128 if name.endswith("cluster") else 64
        report = run(name, "sm_90a", (m // rows, n // 64), [*maps, k], mode)
    else:
        report = run(name, "sm_90a", 3, [*maps, m, n, k], mode)
    close(c, a.double() @ b.double().mT, TOLERANCE[torch.float16])
    assert bool(report.findings) == (name == "specialised" and mode != "eager")
    assert all(f.kind == "race" and "bulk.tensor_store" in f.message for f in report.findings)
