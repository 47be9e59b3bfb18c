import warnings

import pytest

from tilewright.dsl import Target, check_program
from tilewright.dsl.checks import legal_triples
from tilewright.dsl.errors import DtypeError, InstructionFallback, ScopeError, ShapeMismatch, ThreadError, TileError
from tilewright.errors import TilewrightError

SIZES = {"m": 512, "n": 512, "k": 512}
TARGETS = [Target(name) for name in ("sm_80", "sm_89", "sm_90a")]


def refused(program, target):
    with pytest.raises(TilewrightError) as caught:
        check_program(program, target)
    assert len(str(caught.value).splitlines()) <= 12
    return caught.value


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("tb", [False, True])
def test_ordinary_products_pass(gemm, target, dtype, tb):
    check_program(gemm.bind(**SIZES, dtype=dtype, tb=tb), target)


@pytest.mark.parametrize(
    ("dtype", "acc", "target", "message", "remedy"),
    [
        ("bfloat16", "float16", "sm_80", "sm_80 cannot multiply bfloat16 by bfloat16 into float16",
         "legal: bfloat16 x bfloat16 -> float32"),
        ("float16", "int32", "sm_90a", "sm_90a cannot multiply float16 by float16 into int32",
         "legal: float16 x float16 -> float16, float16 x float16 -> float32"),
        ("int8", "float32", "sm_80", "sm_80 cannot multiply int8 by int8 into float32", "legal: int8 x int8 -> int32"),
        ("float8_e4m3fn", "float32", "sm_80", "sm_80 has no 8-bit float matrix units", "use sm_89 or sm_90a"),
        ("float64", "float64", "sm_90a", "sm_90a cannot multiply float64 by float64 into float64", "legal: float16"),
        ("int16", "int32", "sm_89", "sm_89 cannot multiply int16 by int16 into int32", "legal: float16 x float16"),
    ],
)  # fmt: skip
def test_illegal_dtypes_list_the_legal_ones(gemm, dtype, acc, target, message, remedy):
    error = refused(gemm.bind(**SIZES, dtype=dtype, acc=acc), Target(target))
    assert isinstance(error, DtypeError)
    assert f"gemm S: {message}" in str(error)
    assert remedy in str(error)
    assert "T.gemm(A_s, B_s, S, transpose_B=tb)" in str(error)
    assert f"A_s = {dtype}" in str(error)


def test_mixed_operands(refusal):
    error = refusal(
        "a = T.alloc_shared((64, 64), 'float16')\nb = T.alloc_shared((64, 64), 'bfloat16')\n"
        "c = T.alloc_fragment((64, 64), 'float32')\nT.clear(a)\nT.clear(b)\nT.clear(c)\nT.gemm(a, b, c)",
        Target("sm_80"),
    )
    assert "cannot multiply float16 by bfloat16 into float32" in str(error)


def test_legal_triples_follow_the_architecture():
    """PTX ISA: fp8 from sm_89 on, integers of 4 bits and doubles not in warpgroup code."""
    ampere, ada, hopper = (set(legal_triples(target)) for target in TARGETS)
    assert ("float8_e4m3fn", "float8_e5m2", "float32") in ada & hopper - ampere
    assert ("float64", "float64", "float64") in ampere & ada - hopper
    assert ("int8", "uint8", "int32") in hopper - ampere
    for triples in (ampere, ada, hopper):
        assert ("float16", "float16", "float32") in triples
        assert ("bfloat16", "bfloat16", "float16") not in triples


@pytest.mark.parametrize(
    ("dtype", "acc", "tiles", "message", "nearest"),
    [
        ("float16", "float32", {"bk": 8}, "K = 8 is not a multiple of 16", "use K = 16"),
        ("float16", "float32", {"bk": 24}, "K = 24 is not a multiple of 16", "use K = 32"),
        ("int8", "int32", {"bk": 16}, "K = 16 is not a multiple of 32", "use K = 32"),
        ("float32", "float32", {"bk": 4}, "K = 4 is not a multiple of 8", "use K = 8"),
        ("float16", "float32", {"bm": 72}, "M = 72 is not a multiple of 16", "use M = 80"),
        ("float16", "float32", {"bn": 100}, "N = 100 is not a multiple of 8", "use N = 104"),
    ],
)
def test_tiles_that_no_instruction_divides(gemm, dtype, acc, tiles, message, nearest):
    error = refused(gemm.bind(**SIZES, dtype=dtype, acc=acc, **tiles), Target("sm_80"))
    assert isinstance(error, TileError)
    assert f"gemm S: {message}" in str(error)
    assert nearest in str(error)


def test_warps_that_cannot_share_a_tile(gemm):
    error = refused(gemm.bind(**SIZES, bn=104, threads=384), Target("sm_80"))
    assert isinstance(error, ThreadError)
    assert "gemm S: 12 warps cannot share a 128x104 tile" in str(error)
    assert "use 32 or 64 or 128 or 256 threads" in str(error)


@pytest.mark.parametrize(
    ("bn", "tb", "legal"), [(40, False, False), (24, False, False), (48, False, True), (40, True, True)]
)
def test_layouts_that_wgmma_cannot_read(gemm, bn, tb, legal):
    program = gemm.bind(**SIZES, bn=bn, tb=tb)
    check_program(program, Target("sm_80"))
    check_program(program, Target("sm_90a"), {"tl.disable_wgmma": True})
    if legal:
        check_program(program, Target("sm_90a"))
        return
    error = refused(program, Target("sm_90a"))
    assert isinstance(error, TileError)
    assert f"N = {bn} gives B no swizzled layout that wgmma reads" in str(error)
    assert "make N per warp group a multiple of 16, or store B transposed" in str(error)


def fallback(program):
    with pytest.warns(InstructionFallback) as caught:
        check_program(program, Target("sm_90a"))
    (warning,) = caught
    return str(warning.message)


def test_fallbacks_from_wgmma_are_named(gemm):
    text = fallback(gemm.bind(**SIZES, dtype="float32"))
    assert text.startswith("gemm S (<gemm>:18:17): runs on mma.sync instead of wgmma, because operands are float32")
    text = fallback(gemm.bind(**SIZES, dtype="float8_e4m3fn"))
    assert "float8_e4m3fn operands must be K-major; store B as (N, K) with transpose_B=True" in text
    text = fallback(gemm.bind(**SIZES, bm=64, bn=64, threads=64))
    assert "64 threads are no whole warp groups" in text


def test_fallback_for_a_fragment_operand(make):
    program = make(
        "a = T.alloc_shared((64, 64), 'float16')\nb = T.alloc_fragment((64, 64), 'float16')\n"
        "c = T.alloc_fragment((64, 64), 'float32')\nT.clear(a)\nT.clear(b)\nT.clear(c)\nT.gemm(a, b, c)"
    ).bind()
    assert "operand B (b) is in a fragment; keep it in shared memory" in fallback(program)


def test_no_fallback_warning_where_there_is_none(gemm):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_program(gemm.bind(**SIZES, dtype="float8_e4m3fn", tb=True), Target("sm_90a"))
        check_program(gemm.bind(**SIZES, dtype="float32"), Target("sm_80"))
        check_program(gemm.bind(**SIZES, dtype="float32"), Target("sm_90a"), {"tl.disable_wgmma": True})
        check_program(gemm.bind(**SIZES, bm=32), Target("sm_90a"))


def test_scopes(refusal):
    error = refusal(
        "s = T.alloc_shared((64, 64), 'float16')\nc = T.alloc_shared((64, 64), 'float32')\n"
        "T.clear(s)\nT.clear(c)\nT.gemm(s, s, c)",
        Target("sm_80"),
    )
    assert isinstance(error, ScopeError)
    assert "gemm c: operand C must be a fragment" in str(error)
    error = refusal(
        "c = T.alloc_fragment((64, 64), 'float32')\nT.clear(c)\nT.gemm(X, X, c)", Target("sm_80"),
        params='X: T.Tensor((64, 64), "float16")',
    )  # fmt: skip
    assert "gemm c: operand A must be in shared memory or a fragment" in str(error)
    assert "copy X there first" in str(error)


def test_shapes_are_checked_on_the_ir_too(gemm):
    from tilewright.dsl import rewrite, tirx

    program = gemm.bind(**SIZES)
    stmt = program.outline().find("gemm S").node

    def transposed(old):
        args = list(old.value.args)
        args[3] = tirx.const(True, "bool")
        return tirx.Evaluate(tirx.Call(old.value.dtype, old.value.op, args))

    error = refused(rewrite.replace(program, stmt, transposed), Target("sm_80"))
    assert isinstance(error, ShapeMismatch)
    assert "gemm S: A (32, 128) times B (32, 128) does not give C (128, 128)" in str(error)
