"""Lowering end to end: what the artifact holds, limits, options, fallbacks, resources, stages."""

import json

import pytest

from tilewright.dsl import Program, Target
from tilewright.dsl import language as T
from tilewright.lowering import Options, disassemble, lower, record_stages
from tilewright.lowering.checks import check_limits, fallback_remarks
from tilewright.lowering.errors import BadOption, LoweringError, ResourceLimit, UnsupportedTarget
from tilewright.lowering.expression import Expression
from tilewright.lowering.plan import KernelLaunch, LaunchPlan
from tilewright.lowering.resources import parse_resources, resource_remarks
from tilewright.schedules import Schedule


@pytest.fixture(scope="module")
def hopper(gemm):
    return gemm(256, 256, 128, tile=(128, 128, 64))


def launch_of(*, threads=128, shared="0", kernel="k"):
    one = Expression.parse("1")
    return KernelLaunch(
        kernel, (one, one, one), (Expression.parse(threads), one, one), None, Expression.parse(shared), ()
    )


def test_hopper_gemm_uses_its_units(hopper):
    artifact = lower(hopper, target=Target("sm_90a"))
    assert "wgmma.mma_async" in artifact.ptx
    assert "cp.async.bulk.tensor.2d" in artifact.ptx
    assert artifact.ptx.count(".visible .entry") == 1
    assert artifact.cubin[:4] == b"\x7fELF"
    (resources,) = artifact.resources
    assert (resources.kernel, resources.spill_stores, resources.spill_loads) == ("main_kernel", 0, 0)
    assert 0 < resources.registers <= 255
    assert resources.dynamic_shared == 2 * (128 * 64 + 64 * 128) * 2
    assert artifact.remarks == ()


def test_ampere_gemm_uses_its_units(hopper):
    artifact = lower(hopper, target=Target("sm_80"))
    assert "mma.sync.aligned.m16n8k16" in artifact.ptx
    assert "cp.async" in artifact.ptx
    sass = disassemble(artifact)
    assert "HMMA.16816.F32" in sass
    assert "LDGSTS" in sass


def test_ptx_has_no_dead_variables(scale):
    artifact = lower(scale(384), target=Target("sm_80"))
    assert [line for line in artifact.ptx.splitlines() if line.startswith(".global")] == []


def test_schedule_is_applied_and_proved(scale):
    artifact = lower(scale(384), Schedule().min_blocks(3), Target("sm_80"))
    assert "__launch_bounds__(128, 3)" in artifact.cuda
    assert artifact.schedule == Schedule().min_blocks(3)


def test_fast_math_reaches_the_compiler(scale):
    plain = lower(scale(384), target=Target("sm_80"))
    fast = lower(scale(384), Schedule().fast_math(), Target("sm_80"))
    assert (".ftz." in plain.ptx, ".ftz." in fast.ptx) == (False, True)


def test_pass_configuration_reaches_tilelang(hopper):
    artifact = lower(hopper, target=Target("sm_90a"), options=Options.of({"tl.disable_wgmma": True}))
    assert "wgmma.mma_async" not in artifact.ptx
    assert any("fell back from wgmma" in remark for remark in artifact.remarks)


def test_options_of_the_kernel_itself():
    @T.prim_func
    def divided(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        T.annotate_compile_flags(["--use_fast_math"])
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                B[i] = 1.0 / A[i]

    assert ".ftz." in lower(Program.from_primfunc(divided), target=Target("sm_80")).ptx


def test_unknown_pass_configuration():
    with pytest.raises(BadOption, match=r"unknown pass configuration key 'tl\.disable_wgma'") as caught:
        Options.of({"tl.disable_wgma": True})
    assert "did you mean tl.disable_wgmma" in str(caught.value)


@pytest.mark.parametrize("value", ["yes", None, object()])
def test_wrong_type_of_pass_configuration(value):
    with pytest.raises(BadOption, match="takes bool or int"):
        Options.of({"tl.disable_wgmma": value})


def test_wrong_type_of_flag():
    with pytest.raises(BadOption, match="compile flag 3 is not a text"):
        Options.of(compile_flags=[3])


def test_options_from_every_spelling():
    assert Options.of(compile_flags="-DA=1 '-DB=a b'").compiler_flags() == ("-DA=1", "-DB=a b")
    assert Options.of(compile_flags=["-O3", "-DA"]).compiler_flags() == ("-DA",)
    nvcc = ["--expt-relaxed-constexpr", "--expt-extended-lambda", "-Wno-unused", "--ptxas-options=-v,--maxrregcount=64"]
    assert Options.of(compile_flags=nvcc).compiler_flags() == (
        "--ptxas-options=-v",
        "--ptxas-options=--maxrregcount=64",
    )
    configs = {"tl.enable_fast_math": True, "tl.ptxas_register_usage_level": 3, "tl.device_compile_flags": ["-DZ"]}
    flags = Options.of(configs).compiler_flags()
    assert flags == ("-DZ", "--use_fast_math", "--ptxas-options=--register-usage-level=3")


def test_too_much_shared_memory(hopper):
    plan = LaunchPlan("k", (), (), (launch_of(shared="384 * 1024"),))
    with pytest.raises(ResourceLimit, match="k needs 393216 bytes of shared memory a block, sm_90a has 232448"):
        check_limits(plan, Target("sm_90a"), hopper)


def test_too_many_threads(hopper):
    with pytest.raises(ResourceLimit, match="launches 1152 threads a block, sm_80 allows 1024"):
        check_limits(LaunchPlan("k", (), (), (launch_of(threads=1152),)), Target("sm_80"), hopper)


@pytest.mark.parametrize("name", ["sm_100a", "ascend"])
def test_target_of_the_future(scale, name):
    with pytest.raises(UnsupportedTarget, match=f"target {name} cannot be lowered to .*\n.*use sm_80, sm_89, sm_90a"):
        lower(scale(384), target=Target(name))


def test_fallback_remark_only_on_hopper():
    cuda = "tl::mma_sync<tl::DataType::kFloat16>(...)"
    assert fallback_remarks(cuda, Target("sm_80")) == ()
    assert len(fallback_remarks(cuda, Target("sm_90a"))) == 1
    assert fallback_remarks("tl::wgmma_ss<1>(...)", Target("sm_90a")) == ()


LOG = """\
ptxas info    : 7530 bytes gmem
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in function 'b'
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
ptxas         .     64 bytes stack frame, 32 bytes spill stores, 48 bytes spill loads
ptxas info    : Used 240 registers, used 3 barriers, 1024 bytes smem, 400 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Function properties for b
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers
"""


def test_resources_from_the_log():
    plan = LaunchPlan("k", (), (), (launch_of(kernel="a", shared="4096"), launch_of(kernel="b", shared="M * 2")))
    a, b = parse_resources(LOG, plan)
    assert (a.registers, a.stack, a.spill_stores, a.spill_loads, a.barriers) == (240, 64, 32, 48, 3)
    assert (a.static_shared, a.dynamic_shared, a.constant) == (1024, 4096, 408)
    assert (b.registers, b.dynamic_shared) == (16, -1)
    spills, serial = resource_remarks((a, b))
    assert spills == "a spills registers: 32 bytes stored, 48 bytes loaded"
    assert serial.startswith("b: (C7510) Potential Performance Loss")


def test_all_stages(scale):
    stages = record_stages(scale(384), Schedule().min_blocks(2), Target("sm_80"))
    for name in ("outline", "program", "scheduled", "passes", "cuda", "ptx", "sass", "plan", "resources", "lines"):
        assert stages[name]
    assert "tl.min_blocks_per_sm" in stages["scheduled"]
    assert "tl.min_blocks_per_sm" not in stages["program"]
    assert list(stages).index("outline") < list(stages).index("tl.LayoutInference") < list(stages).index("cuda")
    assert "changed    tl.LowerTileOp" in stages["passes"] or "unchanged  tl.LowerTileOp" in stages["passes"]
    assert stages["tl.Simplify"] != ""
    assert "tl.Simplify#2" in stages
    assert json.loads(stages["plan"])["name"] == "scale"


def one_gemm(tm, tn, tk, threads=128):
    @T.prim_func
    def main(A: T.Tensor((tm, tk), "float16"), B: T.Tensor((tk, tn), "float16"), C: T.Tensor((tm, tn), "float16")):
        with T.Kernel(1, threads=threads):
            As = T.alloc_shared((tm, tk), "float16")
            Bs = T.alloc_shared((tk, tn), "float16")
            Cl = T.alloc_fragment((tm, tn), "float32")
            T.copy(A, As)
            T.copy(B, Bs)
            T.gemm(As, Bs, Cl)
            T.copy(Cl, C)

    return Program.from_primfunc(main)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((64, 64, 24), "block_K \\(24\\) must be a multiple of micro_size_k"),
        ((16, 16, 32, 1024), "No valid warp partition for T.gemm"),
        ((24, 64, 32), "M must be divisible by 16, but got 24"),
    ],
)
def test_tilelang_errors_name_the_line(sizes, message, capfd):
    from tilewright.lowering.tilelang_lower import lower_with_tilelang

    with pytest.raises(LoweringError, match=message) as caught:
        lower_with_tilelang(one_gemm(*sizes), Target("sm_80"), Options())
    shown = str(caught.value)
    assert len(shown.splitlines()) <= 12
    assert "T.gemm(As, Bs, Cl)" in shown
    assert __file__ in shown
    assert ".cc" not in shown
    assert caught.value.__cause__ is None
    assert capfd.readouterr().err == ""


def test_debug_keeps_the_cause(monkeypatch):
    from tilewright.lowering.tilelang_lower import lower_with_tilelang

    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    with pytest.raises(LoweringError) as caught:
        lower_with_tilelang(one_gemm(64, 64, 24), Target("sm_80"), Options())
    assert isinstance(caught.value.__cause__, AssertionError)


def test_warnings_of_tilelang_become_remarks(capfd):
    from tilewright.lowering.tilelang_lower import lower_with_tilelang

    @T.prim_func
    def unset(A: T.Tensor((128, 128), "float16")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128, 128), "float16")
            T.copy(s, A)

    lowered = lower_with_tilelang(Program.from_primfunc(unset), Target("sm_80"), Options())
    (remark,) = lowered.remarks
    assert remark.startswith("Buffer read before initialization")
    assert capfd.readouterr().err == ""
