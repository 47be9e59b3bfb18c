"""The jit's cache, options and errors. Kernels are not run: the device only packs."""

import sys
import threading

import pytest
import tilelang.language as T
import torch
from torch._dynamo.backends.common import aot_autograd

from tilewright.dsl import Target
from tilewright.runtime import ArgumentError, Kernel, errors, jit, stats, use
from tilewright.schedules import Schedule

FACTOR = 2.0


@pytest.fixture(autouse=True)
def packs_only(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DEVICE", "null")
    monkeypatch.setenv("TILEWRIGHT_TARGET", "sm_80")


def scaled(value):
    return value * FACTOR


def make_lazy(**options):
    @jit(out_idx=[-1], **options)
    def lazy(M, N, tile=(1, 128), dtype="float32"):
        @T.prim_func
        def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
            with T.Kernel(T.ceildiv(N, tile[1]), M, threads=128) as (bx, by):
                for j in T.Parallel(tile[1]):
                    B[by, bx * tile[1] + j] = scaled(A[by, bx * tile[1] + j])

        return main

    return lazy


def make_eager():
    @jit
    def eager(A, B, tile: int = 128):
        M, N = T.const("M, N")
        A: T.Tensor[[M, N], T.float32]
        B: T.Tensor[[M, N], T.float32]
        with T.Kernel(T.ceildiv(N, tile), M, threads=128) as (bx, by):
            for j in T.Parallel(tile):
                B[by, bx * tile + j] = A[by, bx * tile + j] * FACTOR

    return eager


@pytest.fixture
def lazy():
    return make_lazy()


@pytest.fixture
def eager():
    return make_eager()


def misses():
    return stats()["jit_misses"]


def test_spellings_of_one_call_are_one_kernel(lazy):
    before = misses()
    kernels = {
        id(lazy(4, 256)),
        id(lazy(4, N=256)),
        id(lazy(N=256, M=4)),
        id(lazy(4, 256, (1, 128))),
        id(lazy(4, 256, dtype="float32", tile=(1, 128))),
    }
    assert (len(kernels), misses() - before) == (1, 1)


def test_lists_and_dicts_as_arguments():
    @jit
    def lazy(sizes, options):
        @T.prim_func
        def main(A: T.Tensor((sizes[0],), options["dtype"])):
            with T.Kernel(1, threads=32) as bx:
                A[bx] = 0

        return main

    first = lazy([8], {"dtype": "float32", "x": 1})
    assert lazy([8], {"x": 1, "dtype": "float32"}) is first
    assert lazy(sizes=[8], options={"dtype": "float32", "x": 1}) is first
    assert lazy([16], {"dtype": "float32", "x": 1}) is not first


def test_true_is_not_one():
    @jit
    def lazy(flag):
        dtype = "int32" if flag is True else "float32"

        @T.prim_func
        def main(A: T.Tensor((4,), dtype)):
            with T.Kernel(1, threads=32) as bx:
                A[bx] = 0

        return main

    assert [lazy(flag).plan.arguments[0].dtype for flag in (1, True, 1.0)] == ["float32", "int32", "float32"]


@pytest.mark.parametrize("style", ["lazy", "eager"])
def test_changed_global_gives_a_new_kernel(monkeypatch, style):
    function = make_lazy() if style == "lazy" else make_eager()
    tensors = () if style == "lazy" else (torch.zeros(4, 256), torch.zeros(4, 256))
    arguments = (4, 256) if style == "lazy" else tensors
    first = function.compile(*arguments)
    assert "2.000000e+00" in first.cuda
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 7.0)
    second = function.compile(*arguments)
    assert first.cuda != second.cuda
    assert "7.000000e+00" in second.cuda
    monkeypatch.undo()
    assert function.compile(*arguments).cuda == first.cuda


def test_changed_helper_gives_a_new_kernel(lazy, monkeypatch):
    first = lazy(4, 256)
    monkeypatch.setattr(sys.modules[__name__], "scaled", lambda value: value + 5.0)
    assert lazy(4, 256).cuda != first.cuda


def test_target_of_use(lazy):
    first = lazy(4, 256)
    with use(target="sm_90a"):
        assert lazy(4, 256).target.name == "sm_90a"
    assert lazy(4, 256) is first
    assert first.target.name == "sm_80"


def test_eager_specialises_by_shape_and_counts(eager):
    before = misses()
    for shape in ((4, 256), (4, 512), (4, 256)):
        eager(torch.zeros(shape), torch.zeros(shape))
    eager(torch.zeros(4, 256), B=torch.zeros(4, 256))
    eager(torch.zeros(4, 256), torch.zeros(4, 256), 128)
    assert misses() - before == 2
    eager(torch.zeros(4, 256), torch.zeros(4, 256), tile=64)
    assert misses() - before == 3


def test_eager_checks_its_tensors(eager):
    with pytest.raises(ArgumentError, match="A is float64, eager needs float32"):
        eager(torch.zeros(4, 256, dtype=torch.float64), torch.zeros(4, 256))
    with pytest.raises(ArgumentError, match=r"B: shape\[1\] is 128, must equal 256"):
        eager(torch.zeros(4, 256), torch.zeros(4, 128))
    with pytest.raises(ArgumentError, match="missing B"):
        eager(torch.zeros(4, 256))


def test_compile_and_sources_without_a_call(lazy, eager):
    assert isinstance(lazy.compile(4, 256), Kernel)
    assert eager.compile(torch.zeros(4, 256), torch.zeros(4, 256)).out_idx == ()
    assert lazy.get_kernel_source(4, 256) == lazy(4, 256).cuda
    assert "global_symbol" in lazy.get_tir(4, 256).attrs


def test_schedule_option():
    kernel = make_lazy(schedule=Schedule())(4, 256)
    assert kernel.schedule == Schedule()


def test_threads_compile_once(lazy):
    before = misses()
    found = []
    threads = [threading.Thread(target=lambda: found.append(lazy(4, 256))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len({id(kernel) for kernel in found}), misses() - before) == (1, 1)


def test_pass_configs_and_flags_are_in_the_key():
    plain = make_lazy()(4, 256)
    flagged = make_lazy(compile_flags="-DSOMETHING=1")(4, 256)
    configured = make_lazy(pass_configs={"tl.disable_vectorize_256": True})(4, 256)
    assert len({plain.artifact.key, flagged.artifact.key, configured.artifact.key}) == 3


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"execution_backend": "nvrtc"}, "jit option execution_backend = 'nvrtc' means nothing here"),
        ({"target_host": "llvm"}, "jit option target_host = 'llvm' means nothing here"),
        ({"verbose": True}, "read kernel.artifact.log"),
        ({"debug_root_path": "x"}, "use kernel.save"),
        ({"outidx": 1}, "jit has no option 'outidx'"),
    ],
)
def test_options_without_meaning(option, message):
    with pytest.raises(errors.OptionError, match=message):
        jit(**option)


def test_options_that_change_nothing():
    assert make_lazy(execution_backend="auto", verbose=False, target_host=None)(4, 256).plan.name


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("sm_80", "sm_80"),
        (Target("sm_90a"), "sm_90a"),
        ("auto", "sm_80"),
        ("cuda", "sm_80"),
        ("cuda -arch=sm_90", "sm_90a"),
        ({"kind": "cuda", "arch": "sm_90a"}, "sm_90a"),
    ],
)
def test_target_spellings(given, name):
    assert make_lazy(target=given)(4, 256).target.name == name


@pytest.mark.parametrize("target", ["sm90", "hip", {"kind": "metal"}])
def test_unknown_target(target):
    with pytest.raises(Exception, match="unknown target"):
        jit(target=target)


def test_out_idx_in_eager_style():
    @jit(out_idx=[-1])
    def eager(A):
        N = T.const("N")
        A: T.Tensor[[N], T.float32]
        with T.Kernel(1, threads=32) as bx:
            A[bx] = 0.0

    with pytest.raises(errors.OptionError, match=r"out_idx is for functions that return a T.prim_func"):
        eager(torch.zeros(4))


def test_wrong_call(lazy, eager):
    with pytest.raises(errors.JitError, match="missing a required argument: 'N'"):
        lazy(4)
    with pytest.raises(errors.JitError, match="too many positional arguments"):
        eager(1, 2, 3, 4)


def test_not_a_function():
    with pytest.raises(errors.JitError, match="jit decorates a function, got int"):
        jit(3)


def test_source_that_cannot_be_read():
    namespace = {}
    exec("from tilewright.runtime import jit\n@jit\ndef f(M):\n    return M\n", namespace)
    with pytest.raises(Exception, match="the kernel has no source text"):
        namespace["f"](3)


def test_torch_compile_of_each_style(lazy, eager):
    """The traced graph calls the kernel; what it computes is tested where kernels run."""
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        def inner(lowered, inputs):
            graphs.append(str(lowered.graph))
            return lowered.forward

        return aot_autograd(fw_compiler=inner)(graph, inputs)

    def both(a, b):
        eager(a, b)
        return lazy(4, 256)(b) + 1

    result = torch.compile(both, fullgraph=True, backend=backend)(torch.zeros(4, 256), torch.zeros(4, 256))
    assert result.shape == (4, 256)
    assert "tilewright.run_kernel.default" in graphs[0]
    assert "tilewright.call_kernel.default" in graphs[0]


def test_positions_and_names_may_be_mixed(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DEVICE", "vgpu")

    @jit
    def between(A, tile: int, B):
        N = T.const("N")
        A: T.Tensor[[N], T.float32]
        B: T.Tensor[[N], T.float32]
        with T.Kernel(T.ceildiv(N, tile), threads=128) as bx:
            for j in T.Parallel(tile):
                B[bx * tile + j] = A[bx * tile + j]

    a, b, c = torch.ones(128), torch.zeros(128), torch.zeros(128)
    between(a, 128, B=b)
    between(a, 128, c)
    assert torch.equal(b, a)
    assert torch.equal(c, a)
