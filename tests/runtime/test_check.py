"""``tw.check``: right kernels pass in every mode, each broken one is reported, the caller's tensors stay intact."""

import json
import re
from pathlib import Path

import pytest
import torch

import tilewright as tw
from tilewright import language as T
from tilewright.runtime import check, compile, errors


@tw.kernel
def reverse_blocks(n=256):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n) as _:
            s = T.alloc_shared((n,), "float32")
            t = T.get_thread_binding()
            s[t] = X[t]
            T.sync_threads()
            Y[t] = s[n - 1 - t]

    return main


@tw.kernel
def add_up(n=256):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), total: T.Tensor((1,), "float32")):
        with T.Kernel(4, threads=n // 4) as block:
            t = T.get_thread_binding()
            T.atomic_add(total[0], X[block * (n // 4) + t])

    return main


def without(kernel, pattern, count=1):
    """The kernel with the first instructions that match removed from its PTX."""
    text, removed = re.subn(rf"(?m)^\s*{pattern}.*;$", "", kernel.ptx, count=count)
    assert removed == count
    return kernel.with_ptx(text)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_right_kernel_passes_in_every_mode(target):
    x, y = torch.randn(256), torch.zeros(256)
    report = check(reverse_blocks.bind(), x, y, target=target)
    assert report.ok, str(report)
    assert [run.mode for run in report.runs] == list(tw.vgpu.MODES)
    assert torch.equal(y, torch.zeros(256))  # the caller's tensors are copies' models, never written
    assert "nothing found in 6 launches" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["ok"] is True


def test_a_missing_barrier_is_a_race_with_both_lines():
    kernel = compile(reverse_blocks.bind(), target="sm_80")
    report = check(without(kernel, r"bar\.sync"), torch.randn(256), torch.zeros(256))
    assert not report.ok
    race = next(f for f in report.findings if f.kind == "race")
    assert race.source.file == __file__
    lines = Path(__file__).read_text().splitlines()
    assert "s[n - 1 - t]" in lines[race.source.line - 1] or "s[t] = X[t]" in lines[race.source.line - 1]


def test_a_missing_barrier_also_shows_in_the_results():
    kernel = compile(reverse_blocks.bind(), target="sm_80")
    report = check(without(kernel, r"bar\.sync"), torch.randn(256), torch.zeros(256), checks=())
    assert report.findings or report.differences


def test_sums_by_atomics_agree_within_rounding():
    report = check(add_up.bind(), torch.randn(256), torch.zeros(1), target="sm_80")
    assert report.ok, str(report)


def test_operators_are_checked_through_every_kernel_they_launch():
    a, b = torch.randn(40, 24).half(), torch.randn(24, 32).half()
    report = check(tw.ops.gemm, a, b, activation="relu", target="sm_90a")
    assert report.ok, str(report)
    assert report.subject == "gemm"
    assert all(run.reports for run in report.runs)


def test_views_keep_offset_and_strides():
    base = torch.arange(600, dtype=torch.float32)
    x = base[3:259]
    report = check(reverse_blocks.bind(), x, torch.zeros(256), target="sm_80")
    assert report.ok, str(report)


def test_a_result_that_is_wrong_in_every_mode_is_found_by_verify():
    kernel = compile(reverse_blocks.bind(), target="sm_80")
    x = torch.randn(256)
    seen = []

    def verify(result, given, y):
        seen.append((result, torch.equal(given, x)))
        return [] if torch.equal(y, x) else ["y is not x"]

    report = check(kernel, x, torch.zeros(256), modes=("eager", "skew"), verify=verify)
    assert not report.ok
    assert report.differences == ("mode eager: y is not x", "mode skew: y is not x")
    assert seen == [(None, True)] * 2
    assert check(kernel, x, torch.zeros(256), verify=lambda _, x, y: [] if torch.equal(y, x.flip(0)) else ["wrong"]).ok


def test_a_kernel_that_never_ends_is_given_up_after_its_budget():
    kernel = compile(reverse_blocks.bind(), target="sm_80")
    endless = kernel.with_ptx(kernel.ptx.replace("\tret;", "AGAIN:\n\tadd.s32 %r1, %r1, 1;\n\tbra AGAIN;\n\tret;"))
    report = check(endless, torch.randn(256), torch.zeros(256), modes=("eager",), budget=5000)
    assert [f.kind for f in report.findings] == ["runaway"]
    assert "5000 warp instructions" in report.findings[0].message


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda k: check(k, modes=("eagre",)), errors.OptionError, r"modes = \['eagre'\]\n  fix: use some of eager"),
        (lambda k: check(k, modes=()), errors.OptionError, r"modes = \[\]"),
        (lambda k: check(k, target="sm_80"), errors.OptionError, "a compiled kernel has its target and schedule"),
        (lambda k: check(lambda x: x, torch.zeros(3)), errors.ArgumentError, "launched no kernel"),
        (lambda k: check(k, torch.zeros(3, device="meta")), errors.ArgumentError, "argument 0 is on meta"),
    ],
)
def test_what_cannot_be_checked_is_refused(call, kind, message):
    kernel = compile(reverse_blocks.bind(), target="sm_80")
    with pytest.raises(kind, match=message):
        call(kernel)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_a_result_that_moves_by_an_eighth_is_reported(dtype):
    kernel = compile(reverse_blocks.bind(), target="sm_80")
    calls = []

    def moving(x, y):
        kernel(x, y)
        calls.append(x)
        return torch.ones(16, dtype=dtype) + (len(calls) > 1) * 0.125 * torch.eye(16, dtype=dtype)[3]

    report = check(moving, torch.randn(256), torch.zeros(256), modes=("eager", "lazy"))
    assert not report.ok
    assert report.differences[0].startswith("mode lazy: tensor 0: 1 of 16 elements differ, by up to 0.125")


def test_tensors_inside_lists_are_copied_and_share_what_they_shared():
    kernel = compile(reverse_blocks.bind(), target="sm_80")
    x, y = torch.randn(256), torch.zeros(256)
    seen = []

    def call(tensors, same):
        kernel(*tensors)
        seen.append(same.data_ptr() == tensors[0].data_ptr())
        tensors[0].add_(1)

    before = x.clone()
    report = check(call, [x, y], x, modes=("eager", "skew"))
    assert report.ok, str(report)
    assert seen == [True, True]
    assert torch.equal(x, before)
