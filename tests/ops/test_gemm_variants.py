"""Which kernel a matmul gets, and what its code is made of."""

import re
from dataclasses import replace

import pytest
import torch
from gemm_cases import GEMM, matrix

import tilewright as tw
from tilewright.dsl import Target
from tilewright.lowering import lower
from tilewright.ops.gemm import gemm, run_variant
from tilewright.ops.gemm_tiles import ASYNC, FMA, WGMMA
from tilewright.ops.gemm_variants import Problem, variant_of
from tilewright.ops.gemm_views import operand_of
from tilewright.runtime import recording

BASE = Problem(
    m=4096,
    n=4096,
    batch=1,
    dtype="float16",
    out_dtype="float16",
    transpose_a=False,
    transpose_b=False,
    align=16,
    width=16,
)
SM80, SM90 = Target("sm_80"), Target("sm_90a")


def lowered(target, **values):
    call = GEMM.lowering(GEMM.values(values), target)
    return lower(call.program, call.schedule, target)


def spills(artifact):
    return [(r.kernel, r.spill_stores, r.spill_loads) for r in artifact.resources if r.spill_stores or r.spill_loads]


def test_the_default_on_sm_90a_uses_tma_and_wgmma_without_spills():
    artifact = lowered(SM90)
    assert "wgmma.mma_async" in artifact.ptx
    assert "cp.async.bulk.tensor" in artifact.ptx
    assert "ld.global" not in artifact.ptx
    assert "st.global" not in artifact.ptx
    assert not spills(artifact)
    assert artifact.plan.launches[0].kernel.startswith("gemm_wgmma_f16_nn_load_tma_store_tma_128x256x64")


def test_the_default_on_sm_80_uses_16_byte_cp_async_and_mma_without_spills():
    artifact = lowered(SM80)
    assert "mma.sync" in artifact.ptx
    assert set(re.findall(r"cp\.async\.\w+\.shared\.global(?:\.\S+)? .*?, (\d+)", artifact.ptx)) == {"16"}
    assert {store[:12] for store in re.findall(r"st\.global\S*", artifact.ptx)} == {"st.global.v4"}
    assert not spills(artifact)


@pytest.mark.parametrize(
    ("change", "target", "expected"),
    [
        ({}, SM90, ("wgmma", "tma", "tma")),
        ({}, SM80, ("mma", "16", "16")),
        ({"align": 8, "width": 8}, SM90, ("wgmma", "8", "tma")),
        ({"width": 2}, SM90, ("wgmma", "tma", "tma")),  # TMA needs aligned rows, not whole vectors in them
        ({"n": 4095}, SM90, ("wgmma", "tma", "2")),
        ({"n": 4095, "width": 2}, SM80, ("mma", "2", "2")),
        ({"dtype": "int8", "out_dtype": "int32"}, SM90, ("mma", "tma", "tma")),
        ({"dtype": "int8", "out_dtype": "int32", "transpose_b": True}, SM90, ("wgmma", "tma", "tma")),
        ({"dtype": "float32", "out_dtype": "float32"}, SM90, ("mma", "tma", "tma")),
        ({"dtype": "float32", "out_dtype": "float32", "tensor_cores": False}, SM90, ("fma", "16", "16")),
    ],
)
def test_unit_and_access_widths(change, target, expected):
    variant = variant_of(replace(BASE, **change), target)
    assert (variant.unit, variant.load, variant.store) == expected


@pytest.mark.parametrize(
    ("m", "n", "target", "tile"),
    [
        (4096, 4096, SM90, (128, 256)),
        (1024, 4096, SM90, (128, 128)),
        (64, 4096, SM90, (64, 64)),
        (4096, 4096, SM80, (128, 128)),
        (64, 4096, SM80, (64, 64)),
        (16, 4096, SM80, (16, 64)),
    ],
)
def test_tiles_fill_the_machine(m, n, target, tile):
    chosen = variant_of(replace(BASE, m=m, n=n), target).tile
    assert (chosen.m, chosen.n) == tile


def run_tile(target, tile, m, n, k, dtype=torch.float16, unit=None, transposed_b=False):
    a, b = matrix(1, m, k, dtype=dtype), matrix(1, k, n, dtype=dtype, transposed=transposed_b, seed=1)
    c = torch.empty(1, m, n, dtype=dtype)
    left, right = operand_of(a), operand_of(b)
    name = str(dtype).removeprefix("torch.")
    problem = replace(
        BASE, m=m, n=n, dtype=name, out_dtype=name, transpose_b=transposed_b, tensor_cores=unit != "fma",
        align=min(left.align, right.align), width=min(left.width, right.width),
    )  # fmt: skip
    variant = replace(variant_of(problem, target), tile=tile)
    run_variant(variant, target, left, right, None, c)
    return GEMM.compare(c, a, b)


@pytest.mark.parametrize("tile", WGMMA[:2])
def test_the_large_tiles_of_sm_90a_are_right(tile):
    compared = run_tile(SM90, tile, 200, 272, 200, transposed_b=True)
    assert compared.ok, compared


@pytest.mark.parametrize("tile", ASYNC)
def test_every_tile_of_sm_80_is_right(tile):
    compared = run_tile(SM80, tile, 140, 136, 136)
    assert compared.ok, compared


def test_the_large_tile_of_full_precision_is_right():
    compared = run_tile(SM80, FMA[0], 140, 136, 40, torch.float32, "fma")
    assert compared.ok, compared


def test_another_schedule_is_taken_from_the_surroundings():
    a, b = matrix(64, 64), matrix(64, 64, seed=1)
    other = tw.Schedule().threads(128).pipeline("k", 2)
    with tw.use(target="sm_80"):
        expected = gemm(a, b)
        with tw.use(schedule=other):
            assert torch.equal(gemm(a, b), expected)


def test_the_schedule_is_shown_by_the_outline():
    call = GEMM.lowering(GEMM.values(), SM90)
    outline = str(call.schedule.apply(call.program, SM90).outline())
    assert "4 stages" in outline
    assert "rasterization2DRow" in outline
    assert "256 threads" in outline


@pytest.mark.parametrize(
    "sizes",
    [{"m": 1, "n": 500, "k": 500}, {"m": 40, "n": 1, "k": 72}, {"m": 33, "n": 48, "k": 50, "batch": 2}],
)
@pytest.mark.parametrize("target", [SM80, SM90])
def test_what_is_described_is_what_is_launched(sizes, target):
    values = GEMM.values(sizes)
    described = lower(GEMM.lowering(values, target).program, GEMM.lowering(values, target).schedule, target)
    args, keywords = GEMM.inputs(values, torch.Generator().manual_seed(0))
    with tw.use(target=target), recording() as reports:
        gemm(*args, **keywords)
    assert reports[0].kernel == described.plan.launches[0].kernel
