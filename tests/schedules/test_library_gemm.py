"""One text of gemm under many schedules on two architectures: right numbers and no finding in any mode."""

import pytest
from schedule_programs import gemm, operands, softmax, wrong

from tilewright.dsl import kernel
from tilewright.dsl import language as T
from tilewright.runtime import check, compile, recording
from tilewright.schedules import Schedule
from tilewright.schedules.errors import UnknownHandle
from tilewright.schedules.library import ampere, hopper

BY_THREADS = Schedule().threads(256).copy_engine("copy A->a", "cp_async").copy_engine("copy B->b", "cp_async")
SMALL = {
    ("sm_80", "default"): lambda program: Schedule(),
    ("sm_80", "recipe"): lambda program: ampere.gemm(program, panel=2),
    ("sm_80", "two slots, direct store"): lambda program: ampere.gemm(program, depth=2, staged=False),
    ("sm_80", "eight warps, in turn"): lambda program: ampere.gemm(program, threads=256, panel=2).persistent(2),
    ("sm_80", "split"): lambda program: ampere.split_k(program, 2, depth=2),
    ("sm_80", "stream"): lambda program: ampere.stream_k(program, blocks=3, depth=2),
    ("sm_80", "padded"): lambda program: Schedule().threads(128).pad("a", 8).pad("b", 8).pipeline("ko", 2),
    ("sm_90a", "default"): lambda program: Schedule(),
    ("sm_90a", "recipe"): lambda program: hopper.gemm(program, depth=3, panel=2, blocks=2),
    ("sm_90a", "a block a tile"): lambda program: hopper.gemm(program, depth=2, panel=2, persistent=False),
    ("sm_90a", "ping-pong"): lambda program: hopper.gemm(program, depth=3, panel=2, blocks=2, ping_pong=True),
    ("sm_90a", "split"): lambda program: hopper.split_k(program, 2, depth=2),
    ("sm_90a", "stream"): lambda program: hopper.stream_k(program, blocks=3, depth=2),
    ("sm_90a", "cp.async"): lambda program: BY_THREADS.pipeline("ko", 3),
    ("sm_90a", "A in registers"): lambda program: Schedule().threads(128).place("a", "fragment"),
}
SIZES = {"tm": 128, "tn": 64, "tk": 32}


def checked(program, schedule, target):
    kernel = compile(program, schedule, target)
    report = check(kernel, *operands(program), verify=lambda _, *tensors: wrong(program, *tensors))
    assert report.ok, str(report)
    return kernel


@pytest.mark.parametrize(("target", "case"), SMALL)
def test_one_text_under_many_schedules(target, case):
    program = gemm.bind(m=200, n=136, k=104, **SIZES)
    checked(program, SMALL[target, case](program), target)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(256, 256, 256), (200, 264, 328), (392, 72, 136), (64, 520, 512)])
@pytest.mark.parametrize(("target", "case"), SMALL)
def test_one_text_under_many_schedules_in_every_size(target, case, sizes, dtype):
    m, n, k = sizes
    program = gemm.bind(m=m, n=n, k=k, dtype=dtype, out=dtype, **SIZES)
    checked(program, SMALL[target, case](program), target)


def test_the_recipe_for_hopper_at_its_own_tile():
    program = gemm.bind(m=8192, n=8192, k=4096, tm=128, tn=256, tk=64, dtype="bfloat16", out="bfloat16")
    kernel = compile(program, hopper.gemm(program), "sm_90a")
    used = kernel.resources[0]
    assert (used.spill_stores, used.spill_loads, used.remarks) == (0, 0, ())
    assert used.registers * 384 <= 65536
    assert "wgmma.mma_async.sync.aligned.m64n256k16" in kernel.ptx
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in kernel.ptx
    assert [size.evaluate() for size in kernel.plan.launches[0].grid] == [132, 1, 1]
    assert kernel.plan.launches[0].dynamic_shared.evaluate() == 4 * (128 + 256) * 64 * 2 + 128 * 64 * 2


@pytest.mark.parametrize("persistent", [True, False])
def test_the_recipe_whose_warpgroups_multiply_in_turn(persistent):
    program = gemm.bind(m=8192, n=8192, k=4096, tm=128, tn=256, tk=64, dtype="bfloat16", out="bfloat16")
    kernel = compile(program, hopper.gemm(program, ping_pong=True, persistent=persistent), "sm_90a")
    used = kernel.resources[0]
    assert (used.spill_stores, used.spill_loads, used.remarks) == (0, 0, ())
    assert "wgmma.mma_async.sync.aligned.m64n256k16" in kernel.ptx


def test_the_same_recipe_small_enough_to_run():
    program = gemm.bind(m=256, n=512, k=320, tm=128, tn=256, tk=64, dtype="bfloat16", out="bfloat16")
    tensors = operands(program)
    compile(program, hopper.gemm(program, panel=2, blocks=3), "sm_90a")(*tensors)
    assert not wrong(program, *tensors)


@kernel
def plain(m, n, k):
    @T.prim_func
    def gemm(A: T.Tensor((m, k), "bfloat16"), B: T.Tensor((k, n), "bfloat16"), C: T.Tensor((m, n), "bfloat16")):
        with T.Kernel(T.ceildiv(n, 256), T.ceildiv(m, 128), threads=256) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 256), "bfloat16")
            c = T.alloc_fragment((128, 256), "float32")
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, 64), num_stages=4):
                T.copy(A[by * 128, ko * 64], a)
                T.copy(B[ko * 64, bx * 256], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 256])

    return gemm


def counted(program, schedule):
    kernel = compile(program, schedule, "sm_90a")
    with recording("eager", checks=("banks", "sectors", "traffic")) as reports:
        kernel(*operands(program))
    return reports[0].counts


@pytest.mark.long
def test_the_recipe_needs_no_more_than_the_default():
    def ours(k):
        program = gemm.bind(m=256, n=512, k=k, tm=128, tn=256, tk=64, dtype="bfloat16", out="bfloat16")
        return counted(program, hopper.gemm(program, blocks=2))

    recipe = {k: ours(k) for k in (512, 1024)}
    default = {k: counted(plain.bind(m=256, n=512, k=k), None) for k in (512, 1024)}

    def main_loop(counts):
        return counts[1024]["instructions"] - counts[512]["instructions"]

    assert main_loop(recipe) <= main_loop(default)
    assert recipe[1024]["shared.conflicts"] == 0
    assert recipe[1024]["global.bytes"] <= default[1024]["global.bytes"]
    assert recipe[1024]["global.sectors"] <= default[1024]["global.sectors"]


@kernel
def outside():
    @T.prim_func
    def outside(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1) as _:
            a = T.alloc_tile((64, 32), "float16")
            b = T.alloc_tile((32, 64), "float16")
            c = T.alloc_tile((64, 64), "float32")
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c)
            T.copy(c, C)

    return outside


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (softmax, "softmax has 0 matrix products, this recipe is for one"),
        (outside, "gemm c of outside is in no loop that loads both of its operands"),
    ],
)
def test_what_is_no_product_is_refused(factory, message):
    for recipe in (hopper.gemm, ampere.gemm):
        with pytest.raises(UnknownHandle, match=message):
            recipe(factory.bind())
