"""What ``kernel.get_profiler()`` makes, compares and times."""

import pytest
import tilelang
import tilelang.language as T
import torch

from tilewright.runtime import ArgumentError, jit


@pytest.fixture(autouse=True)
def one_target(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_TARGET", "sm_80")


@jit(out_idx=[2])
def weighted(n, dtype="float32"):
    @T.prim_func
    def main(x: T.Tensor((n,), dtype), w: T.Tensor((n,), "int32"), y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
            for i in T.Parallel(64):
                y[b * 64 + i] = x[b * 64 + i] * w[b * 64 + i]

    return main


@jit
def doubled(x, y):
    n = T.dynamic("n")
    x: T.Tensor((n,), "float32")
    y: T.Tensor((n,), "float32")
    with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
        for i in T.Parallel(64):
            y[b * 64 + i] = x[b * 64 + i] * 2


@pytest.mark.parametrize(
    ("supply", "lowest", "highest", "whole"),
    [("Zero", 0, 0, True), ("One", 1, 1, True), ("Integer", -2, 2, True), ("Uniform", -1, 1, False)],
)
def test_inputs_follow_the_supply(supply, lowest, highest, whole):
    x, w = weighted(256).get_profiler(getattr(tilelang.TensorSupplyType, supply)).inputs()
    assert (x.dtype, w.dtype, x.shape, w.shape) == (torch.float32, torch.int32, (256,), (256,))
    assert lowest <= x.min() <= x.max() <= highest
    assert bool((x == x.round()).all()) is whole


def test_normal_inputs_have_mean_zero_and_deviation_one():
    x, w = weighted(4096).get_profiler("Randn").inputs()
    assert abs(float(x.mean())) < 0.1
    assert abs(float(x.std()) - 1) < 0.1
    assert set(w.tolist()) == {-2, -1, 0, 1, 2}


def test_the_reference_is_compared():
    profiler = weighted(256).get_profiler()
    profiler.assert_allclose(lambda x, w: (x.double() * w).float(), atol=1e-6, rtol=1e-6)
    profiler.assert_allclose(lambda x, w: None if x is None else (None,))
    with pytest.raises(AssertionError, match=r"output 0: .* of 256 elements differ .* largest difference is 1"):
        profiler.assert_allclose(lambda x, w: x * w + 1)
    with pytest.raises(AssertionError, match="1 outputs, the reference 2"):
        profiler.assert_allclose(lambda x, w: (x, w))
    with pytest.raises(AssertionError, match=r"shape \(256,\), that of the reference \(1,\)"):
        profiler.assert_allclose(lambda x, w: x[:1])


def test_a_share_of_elements_may_differ():
    ones = [torch.ones(256), torch.ones(256, dtype=torch.int32)]
    wrong = torch.ones(256)
    wrong[:8] = 2
    profiler = weighted(256).get_profiler()
    profiler.assert_allclose(lambda x, w: wrong, input_tensors=ones, max_mismatched_ratio=8 / 256)
    with pytest.raises(AssertionError, match="8 of 256"):
        profiler.assert_allclose(lambda x, w: wrong, input_tensors=ones, max_mismatched_ratio=7 / 256)


def test_running_and_timing():
    profiler = weighted(256).get_profiler("One")
    assert torch.equal(profiler.run_once(), torch.ones(256))
    assert profiler.func(*profiler.inputs()).sum() == 256
    assert profiler.do_bench(warmup=1, rep=1) > 0
    calls = []
    quantiles = profiler.do_bench(lambda x, w: calls.append(x), n_warmup=1, n_repeat=3, quantiles=[0.1, 0.5, 0.9])
    assert len(calls) >= 3
    assert quantiles == sorted(quantiles)


def test_shape_variables_need_a_size():
    profiler = doubled.compile(torch.ones(64), torch.ones(64)).get_profiler()
    with pytest.raises(ArgumentError, match="x has no size for n"):
        profiler.inputs()
    assert [tensor.shape for tensor in profiler.inputs({"n": 128})] == [(128,), (128,)]
    assert profiler.do_bench(warmup=1, rep=1, dynamic_symbolic_constraints={"n": 128}) > 0


def test_unknown_supplies_are_refused():
    with pytest.raises(ArgumentError, match="no tensor supply Gaussian"):
        weighted(256).get_profiler("Gaussian")


@jit(out_idx=[1])
def through_scratch():
    n = T.dynamic("n")

    @T.prim_func
    def main(x: T.Tensor((n, 64), "float32"), y: T.Tensor((n, 64), "float32")):
        scratch = T.alloc_global((n, 64), "float32")
        with T.Kernel(n, threads=64) as b:
            for i in T.Parallel(64):
                scratch[b, 63 - i] = x[b, i] + 1
        with T.Kernel(n, threads=64) as b:
            for i in T.Parallel(64):
                y[b, i] = scratch[b, i] * 3

    return main


@pytest.mark.parametrize("rows", [3, 5])
def test_scratch_memory_is_allocated_by_each_call(rows):
    x = torch.arange(rows * 64, dtype=torch.float32).reshape(rows, 64)
    assert torch.equal(through_scratch()(x), (x.flip(1) + 1) * 3)
