"""Kernels as ranks: several devices at once over tensors that all may reach; what kernels print; lines of CUDA."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import tilewright as tw
from tilewright import language as T
from tilewright.runtime import errors, recording

FLAGS = """
__device__ __forceinline__ void signal(int* flag) {
  asm volatile("red.release.sys.global.add.s32 [%0], 1;" :: "l"(flag) : "memory");
}
__device__ __forceinline__ void await(const int* flag, int value) {
  int seen = 0;
  while (seen < value) asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
}
__device__ __forceinline__ float load(const void* table, int rank, int at) {
  return ((const float* const*)table)[rank][at];
}
"""


@tw.kernel
def all_reduce(n=64, world=3):
    """Every rank reads all parts through a table of their addresses, once all have written theirs."""

    @T.prim_func
    def main(
        x: T.Tensor((n,), "float32"),
        part: T.Tensor((n,), "float32"),
        table: T.Tensor((world,), "int64"),
        flag: T.Tensor((1,), "int32"),
        out: T.Tensor((n,), "float32"),
    ):
        with T.Kernel(1, threads=n, prelude=FLAGS):
            t = T.get_thread_binding()
            part[t] = x[t] * 2
            T.sync_threads()
            if t == 0:
                T.call_extern("void", "signal", T.address_of(flag[0]))
                T.call_extern("void", "await", T.address_of(flag[0]), world)
            T.sync_threads()
            total = T.alloc_local((1,), "float32")
            total[0] = 0.0
            for r in T.serial(world):
                total[0] += T.call_extern("float32", "load", T.address_of(table[0]), r, t)
            out[t] = total[0]

    return main


def reduction(world=3, n=64):
    inputs = [torch.randn(n) for _ in range(world)]
    parts = [torch.zeros(n) for _ in range(world)]
    table = torch.tensor([p.data_ptr() for p in parts])
    flag = torch.zeros(1, dtype=torch.int32)
    return inputs, [(inputs[r], parts[r], table, flag) for r in range(world)]


@pytest.mark.parametrize("mode", tw.vgpu.MODES)
def test_an_all_reduce_over_a_table_of_pointers(mode, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_VGPU_MODE", mode)
    kernel = tw.compile(all_reduce.bind(), target="sm_90a", out_idx=[-1])
    inputs, arguments = reduction()
    for result in tw.run_ranks(kernel, arguments):
        torch.testing.assert_close(result, sum(inputs) * 2)


def test_ranks_are_watched_for_races():
    kernel = tw.compile(all_reduce.bind(), target="sm_90a", out_idx=[-1])
    _, arguments = reduction()
    with recording(checks=("race",)) as reports:
        tw.run_ranks(kernel, arguments)
    (report,) = reports
    assert report.ok, str(report)
    broken = kernel.with_ptx(kernel.ptx.replace("red.release.sys", "red.release.gpu"))
    _, arguments = reduction()
    with recording(checks=("race",)) as reports:
        tw.run_ranks(broken, arguments)
    messages = [f.message for f in reports[0].findings]
    assert any("another device needs .sys" in message for message in messages), messages


def test_a_rank_that_does_not_signal_is_a_deadlock():
    kernel = tw.compile(all_reduce.bind(world=4), target="sm_90a", out_idx=[-1])
    _, arguments = reduction(world=4)
    with pytest.raises(errors.VirtualGpuFault, match="deadlock: device 0 block") as caught:
        tw.run_ranks(kernel, arguments[:3])
    (finding,) = caught.value.report.findings
    waits = re.findall(
        r"device (\d) block .*?: .*? for a write to byte 0 of argument 0, which holds 3", finding.message
    )
    assert waits == ["0", "1", "2"]


def test_memory_that_no_argument_names():
    kernel = tw.compile(all_reduce.bind(world=1), target="sm_90a", out_idx=[-1])
    (x,), ((_, part, table, flag),) = reduction(world=1)
    elsewhere = torch.ones(64)
    table[0] = elsewhere.data_ptr()
    with pytest.raises(errors.VirtualGpuFault, match="out-of-bounds"):
        tw.run_ranks(kernel, [(x, part, table, flag)])
    flag.zero_()
    (out,) = tw.run_ranks(kernel, [(x, part, table, flag)], memory=[elsewhere])
    assert torch.equal(out, elsewhere)


@tw.kernel
def numbered(n=32):
    @T.prim_func
    def main(x: T.Tensor((4, n), "int32"), rank: T.int32):
        with T.Kernel(1, threads=n):
            x[rank, T.get_thread_binding()] = rank + 1

    return main


def test_check_numbers_the_ranks():
    x = torch.zeros(4, 32, dtype=torch.int32)
    kernel = tw.compile(numbered.bind(), target="sm_80")
    report = tw.check(kernel, x, 0, ranks=4)
    assert report.ok, str(report)
    assert all(len(run.reports) == 1 for run in report.runs)
    tw.run_ranks(kernel, [(x, rank) for rank in range(4)])
    assert x[:, 0].tolist() == [1, 2, 3, 4]


def test_mistakes():
    kernel = tw.compile(numbered.bind(), target="sm_80")
    with pytest.raises(errors.OptionError, match="there is no rank"):
        tw.run_ranks(kernel, [])
    with pytest.raises(errors.OptionError, match="ranks is 0"):
        tw.check(kernel, torch.zeros(4, 32, dtype=torch.int32), 0, ranks=0)
    with pytest.raises(errors.OptionError, match="has no parameter rank"):
        tw.check(all_reduce.bind(), ranks=2)
    with pytest.raises(errors.OptionError, match="is a function, and ranks = 2"):
        tw.check(lambda: None, ranks=2)
    with pytest.raises(errors.ArgumentError, match="a tensor is on meta"):
        tw.run_ranks(kernel, [(torch.zeros(4, 32, dtype=torch.int32, device="meta"), 0)])


@tw.kernel
def talkative(n=32):
    @T.prim_func
    def main(x: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=n):
            t = T.get_thread_binding()
            if t == 3:
                T.print(x[t], msg="seen")
            T.device_assert(x[t] < 40)  # asserted

    return main


def test_what_a_kernel_prints_goes_to_stdout_once(capsys):
    kernel = tw.compile(talkative.bind(), target="sm_80")
    x = torch.arange(32, dtype=torch.int32)
    kernel(x)
    line = "msg='seen' BlockIdx=(0, 0, 0), ThreadIdx=(3, 0, 0): dtype=int value=3\n"
    assert capsys.readouterr().out == line
    report = tw.check(kernel, x, modes=["eager"])
    assert capsys.readouterr().out == ""
    assert report.runs[0].reports[0].output == line


def test_a_failed_assertion_names_its_line():
    kernel = tw.compile(talkative.bind(), target="sm_80")
    (finding,) = tw.check(kernel, torch.arange(32, dtype=torch.int32) + 9, modes=["eager"]).findings
    assert finding.kind == "assertion"
    assert finding.thread == (31, 0, 0)
    assert Path(__file__).read_text().splitlines()[finding.source.line - 1].endswith("# asserted")
    assert finding.source.file == __file__
    assert "< 40" in kernel.cuda.splitlines()[finding.cuda_line - 1]
