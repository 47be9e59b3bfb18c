import pytest

from tilewright.dsl import Target, check_program
from tilewright.dsl.errors import (
    DtypeError,
    GridError,
    IndexOutOfRange,
    PipelineDropped,
    RaceError,
    ReadBeforeWrite,
    RegisterError,
    RegisterPressure,
    ShapeMismatch,
    SharedMemoryError,
    ThreadError,
)

AMPERE, HOPPER = Target("sm_80"), Target("sm_90a")

REFUSED = {
    "float17": ("s = T.alloc_shared((8,), 'float17')", {}, DtypeError, "s has the unknown dtype 'float17'"),
    "2048 threads": ("O[0] = A[0]", {"threads": 2048}, ThreadError, "a block of 2048 threads cannot be launched"),
    "part of a warp": (
        "s = T.alloc_fragment((64, 64), 'float32')\nt = T.alloc_fragment((64,), 'float32')\nT.clear(s)\n"
        "T.reduce_sum(s, t, dim=1)\nT.copy(t, O[0])",
        {"threads": 48}, ThreadError, "reduce_sum s needs whole warps of 32 threads",
    ),
    "grid y": ("O[0] = A[0]", {"grid": "1, 70000"}, GridError, "grid axis y (by) has 70000 blocks, the limit is 65535"),
    "1 MB of shared memory": (
        "s = T.alloc_shared((1024, 256), 'float32')\nT.clear(s)\nT.copy(s[0, 0:64], O[0:64])",
        {}, SharedMemoryError, "1048576 bytes of dynamic shared memory, sm_90a has 232448 for a block",
    ),
    "10 stages of 32 KB": (
        "s = T.alloc_shared((128, 64), 'float32')\nfor k in T.Pipelined(8, num_stages=10):\n"
        "    T.copy(X[k * 128, 0], s)\n    T.copy(s, X[k * 128, 0])",
        {"params": 'X: T.Tensor((1024, 64), "float32")'}, SharedMemoryError, "s = 10 stages x 32768 B float32[128, 64]",
    ),
    "64 KB of static shared memory": (
        "s = T.alloc_shared((256, 64), 'float32', scope='shared')\nT.clear(s)\nT.copy(s[0, 0:64], O[0:64])",
        {}, SharedMemoryError, "65536 bytes of static shared memory, sm_90a has 49152 for a block",
    ),
    "8192 floats a thread": (
        "s = T.alloc_fragment((8192 * 128,), 'float32')\nT.clear(s)",
        {}, RegisterError, "fragment s needs 8192 registers a thread, the limit is 255",
    ),
    "transposed copy": (
        "s = T.alloc_shared((32, 64), 'float32')\nT.copy(X[0:64, 0:32], s)",
        {"params": 'X: T.Tensor((64, 64), "float32")'}, ShapeMismatch, "copy X->s: (64, 32) does not fit (32, 64)",
    ),
    "kept dimension": (
        "s = T.alloc_fragment((64, 64), 'float32')\nt = T.alloc_fragment((64, 1), 'float32')\nT.clear(s)\n"
        "T.reduce_sum(s, t, dim=1)",
        {}, ShapeMismatch, "allocate t with shape (64,) and index it without that dimension",
    ),
    "part of a fragment reduced": (
        "s = T.alloc_fragment((128,), 'float32')\nt = T.alloc_fragment((1,), 'float32')\nT.copy(A[0:128], s)\n"
        "T.reduce_sum(s[0:64], t, dim=0)\nT.copy(t, O[0:1])",
        {}, ShapeMismatch, "s[0] is part of a fragment, and TileLang reduces whole fragments",
    ),
    "kept dimension in shared memory": (
        "s = T.alloc_shared((64, 64), 'float32')\nt = T.alloc_shared((64, 1), 'float32')\nT.clear(s)\n"
        "T.reduce_sum(s, t, dim=1)",
        {}, ShapeMismatch, "allocate t with shape (64,)",
    ),
    "constant index": ("O[0] = A[300]", {}, IndexOutOfRange, "index 300 of A is out of range along dimension 0"),
    "negative index": ("O[0] = A[-257]", {}, IndexOutOfRange, "index -257 of A is out of range along dimension 0"),
    "loop past the end": (
        "s = T.alloc_shared((32,), 'float32')\nT.clear(s)\nfor i in T.Parallel(64):\n    O[i] = s[i]",
        {}, IndexOutOfRange, "seen: index = 0 to 63, s.shape = (32,)",
    ),
    "shifted loop": (
        "s = T.alloc_shared((32,), 'float32')\nT.clear(s)\nfor i in T.Parallel(32):\n    O[i] = s[i + 1]",
        {}, IndexOutOfRange, "seen: index = 1 to 32, s.shape = (32,)",
    ),
    "region past the end": (
        "s = T.alloc_shared((32,), 'float32')\nT.copy(A[0:64], s[0:64])",
        {}, IndexOutOfRange, "elements 0 to 63 of s along dimension 0 do not exist",
    ),
    "lost update": (
        "for i in T.Parallel(64):\n    O[0] += A[i]", {}, RaceError, "every iteration over i updates O[0] at once",
    ),
    "lost update of pairs": (
        "for i in T.Parallel(64):\n    O[i // 2] += A[i]",
        {}, RaceError, "more than one iteration over i updates O[i // 2] at once",
    ),
    "lost update of a remainder": (
        "for i in T.Parallel(64):\n    O[i % 8] += A[i]",
        {}, RaceError, "more than one iteration over i updates O[i % 8] at once",
    ),
    "lost update in one of two": (
        "f = T.alloc_fragment((64,), 'float32')\nT.clear(f)\nfor i, j in T.Parallel(64, 4):\n    f[i] += A[j]",
        {}, RaceError, "every iteration over j updates f[i] at once",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(refusal, name):
    body, how, kind, message = REFUSED[name]
    error = refusal(body, HOPPER, **how)
    assert isinstance(error, kind)
    assert message in str(error)
    assert error.span.excerpt()[1].strip(" |") == "^"


def test_race_names_the_remedy(refusal):
    text = str(refusal("for i in T.Parallel(64):\n    O[0] += A[i]", AMPERE))
    assert "T.reduce_sum" in text
    assert "T.atomic_add(O[0], value)" in text


ACCEPTED = {
    "update of a permutation": ("for i in T.Parallel(64):\n    O[63 - i] += A[i]", {}),
    "update through strides": ("for i, j in T.Parallel(8, 4):\n    O[i * 4 + j] += A[i]", {}),
    "odd threads without warp operations": ("O[0] = A[0]", {"threads": 100}),
    "negative index within": ("O[-1] = A[-256]", {}),
    "guarded loop": (
        "s = T.alloc_shared((32,), 'float32')\nT.clear(s)\nfor i in T.Parallel(64):\n    if i < 32:\n"
        "        O[i] = s[i]", {}
    ),
    "guarded expression": (
        "s = T.alloc_shared((32,), 'float32')\nT.clear(s)\nfor i in T.Parallel(64):\n"
        "    O[i] = T.if_then_else(i < 32, s[i], 0.0)", {}
    ),
    "own element": ("for i in T.Parallel(64):\n    O[i] += A[i]", {}),
    "private variable": (
        "v = T.alloc_var('float32')\nv = 0.0\nfor i in T.serial(64):\n    v += A[i]\nO[0] = v", {}
    ),
    "reducer": (
        "r = T.alloc_reducer((1,), 'float32', 'sum')\ns = T.alloc_fragment((1,), 'float32')\nT.reducer_init(r)\n"
        "for i in T.Parallel(256):\n    T.reducer_update(r[0], A[i])\nT.finalize_reducer(r, s)\nO[0] = s[0]", {}
    ),
    "atomic": ("for i in T.Parallel(64):\n    T.atomic_add(O[0], A[i])", {}),
    "buffer filled by a foreign function": (
        "s = T.alloc_shared((64,), 'float32')\nT.call_extern('handle', 'f', T.address_of(s[0]))\nT.copy(s, O[0])", {}
    ),
    "initialised variable": ("v = T.alloc_var('float32', init=0.0)\nv += A[0]\nO[0] = v", {}),
    "unit axis": ("for i, j in T.Parallel(64, 1):\n    O[i] += A[i]", {}),
    "scalar broadcast": ("s = T.alloc_shared((32,), 'float32')\nT.copy(A[0:32], s)\nT.copy(s, O[0])", {}),
    "unit dimensions": (
        "s = T.alloc_shared((64,), 'float32')\nT.copy(X[0, 0:64], s)\nT.copy(s, X[1, 0])",
        {"params": 'X: T.Tensor((64, 64), "float32")'},
    ),
    "long first axis": ("O[0] = A[0]", {"grid": "70000, 4"}),
    "symbolic extents": (
        "s = T.alloc_shared((64,), 'float32')\nT.copy(X[bx * 64], s)\nT.copy(s, X[bx * 64])",
        {"before": 'n = T.dynamic("n")', "params": 'X: T.Tensor((n,), "float32")', "grid": "T.ceildiv(n, 64)"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("target", [AMPERE, HOPPER], ids=str)
def test_accepted(make, name, target):
    body, how = ACCEPTED[name]
    check_program(make(body, **how).bind(), target)


def test_shared_memory_limits_follow_the_target(gemm):
    program = gemm.bind(m=512, n=512, k=512, bk=64, stages=5)  # 5 x (128x64 + 64x128) x 2 bytes
    check_program(program, HOPPER)
    check_program(program, AMPERE)
    with pytest.raises(SharedMemoryError, match="163840 bytes of dynamic shared memory, sm_89 has 101376") as caught:
        check_program(program, Target("sm_89"))
    assert "A_s = 5 stages x 16384 B float16[128, 64]" in str(caught.value)
    assert "fewer pipeline stages" in str(caught.value)


def test_buffers_that_never_meet_share_storage(make):
    body = (
        "s = T.alloc_shared((160, 256), 'float32')\nt = T.alloc_shared((160, 256), 'float32')\n"
        "T.clear(s)\nT.copy(s[0, 0:64], O[0:64])\nT.clear(t)\nT.copy(t[0, 0:64], O[0:64])"
    )
    check_program(make(body).bind(), AMPERE)


def test_the_largest_offenders_are_listed(refusal):
    body = "\n".join(f"s{i} = T.alloc_shared((64, {8 * (i + 8)}), 'float32')" for i in range(12))
    body += "\n" + "\n".join(f"T.clear(s{i})" for i in range(12))
    body += "\nfor k in T.serial(2):\n" + "\n".join(f"    T.copy(s{i}[0, 0:8], O[0:8])" for i in range(12))
    text = str(refusal(body, AMPERE))
    assert "seen: s11 = 38912 B float32[64, 152], s10" in text
    assert "and = 6 more" in text


def warned(make, category, body, target=HOPPER, **how):
    with pytest.warns(category) as caught:
        check_program(make(body, **how).bind(), target)
    return [str(warning.message) for warning in caught]


def test_read_before_write(make):
    body = "s = T.alloc_fragment((256,), 'float32')\nT.copy(s, O)"
    assert warned(make, ReadBeforeWrite, body)[0].endswith("s is read before it is written")


def test_accumulating_into_nothing(make):
    head = "a = T.alloc_shared((64, 64), 'float16')\nc = T.alloc_fragment((64, 64), 'float32')\n"
    body = head + "T.clear(a)\nT.gemm(a, a, c)"
    (text,) = warned(make, ReadBeforeWrite, body)
    assert text.startswith("gemm c (<kernel ")
    assert text.endswith("c is read before it is written")
    check_program(make(body.replace("a, c)", "a, c, clear_accum=True)")).bind(), HOPPER)


NESTED = """\
s = T.alloc_shared((64,), "float32")
for k in T.Pipelined(2, num_stages=3):
    for j in T.serial(2):
        T.copy(A[(k * 2 + j) * 64], s)
        T.copy(s, O[(k * 2 + j) * 64])
"""
OWN = """\
s = T.alloc_shared((64,), "float32")
for k in T.Pipelined(4, num_stages=3):
    T.copy(A[k * 64], s)
    for j in T.serial(2):
        T.copy(s[j * 32], O[k * 64 + j * 32:k * 64 + j * 32 + 32])
"""


def test_dropped_pipeline(make):
    (text,) = warned(make, PipelineDropped, NESTED)
    assert "loop k (" in text
    assert "its 3 pipeline stages are dropped, because its copies stand in an inner loop" in text
    check_program(make(OWN).bind(), HOPPER)


def test_register_pressure(make):
    body = (
        "x = T.alloc_fragment((128, 160), 'float32')\ny = T.alloc_fragment((128, 160), 'float32')\n"
        "T.clear(x)\nT.clear(y)\nT.copy(x, y)"
    )
    (text,) = warned(make, RegisterPressure, body, AMPERE)
    assert "fragments alive at once need 320 of 255 registers a thread" in text
    assert "x 160, y 160" in text


def test_other_machines_get_the_machine_independent_checks(make, refusal):
    check_program(make("O[0] = A[0]", threads=2048).bind(), Target("ascend"))
    assert isinstance(refusal("O[0] = A[300]", Target("ascend")), IndexOutOfRange)


def test_a_launch_without_threads_has_the_default_number(make):
    body = "s = T.alloc_fragment((2, 128), 'float32')\nt = T.alloc_fragment((2,), 'float32')\n"
    body += "T.copy(A, s)\nT.reduce_sum(s, t, dim=1)\nT.copy(t, O[0])"
    program = make(body, params='A: T.Tensor((2, 128), "float32"), O: T.Tensor((2,), "float32")', threads=None).bind()
    check_program(program, HOPPER)
    assert program.outline().grids[0].detail.thread_count == 128


def test_tfloat32_parameters_have_their_name(make):
    program = make("O[0] = A[0]", params="A: T.Tensor((256,), T.tfloat32), O: T.Tensor((256,), T.tfloat32)").bind()
    check_program(program, HOPPER)
    assert [param.dtype for param in program.params] == ["tfloat32", "tfloat32"]


def test_a_fragment_that_spills_is_a_warning(make):
    body = "s = T.alloc_fragment((128, 256), 'float32')\nT.clear(s)\nT.copy(s, O)"
    text = warned(
        make, RegisterPressure, body, params='A: T.Tensor((1,), "float32"), O: T.Tensor((128, 256), "float32")'
    )
    assert "need 256 of 255 registers a thread" in text[0]
