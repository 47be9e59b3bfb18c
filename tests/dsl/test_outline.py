import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.dsl import rewrite
from tilewright.dsl.errors import AmbiguousLabel, UnknownLabel


def golden(text):
    return textwrap.dedent(text).strip("\n")


def shown(program):
    """The outline with runs of spaces before the line numbers made short."""
    return "\n".join(
        line.partition(" line ")[0].rstrip() + (f" @{line.rpartition(' ')[2]}" if " line " in line else "")
        for line in str(program.outline()).splitlines()
    )


def test_gemm(gemm):
    assert shown(gemm.bind(m=512, n=256, k=1024)) == golden("""
        gemm(A: float16[512, 1024], B: float16[1024, 256], C: float32[512, 256])
          grid: bx = 2, by = 4; 128 threads @7
            buffer A_s: shared.dyn float16[128, 32] 8192 B @8
            buffer B_s: shared.dyn float16[32, 128] 8192 B @9
            buffer S: local.fragment float32[128, 128] 65536 B @10
            clear S: S @11
            loop ko: pipelined 32, 3 stages @12
              copy A->A_s: A[by * 128, ko * 32], A_s: 128x32 @13
              copy B->B_s: B[ko * 32, bx * 128], B_s: 32x128 @17
              gemm S: A_s, B_s, S: 128x128x32 @18
            parallel S: i = 128, j = 128 @19
            copy S->C: S, C[by * 128, bx * 128]: 128x128 @21
        """)


ATTENTION = """\
Q_s = T.alloc_shared((64, 64), "float16")
K_s = T.alloc_shared((64, 64), "float16")
S = T.alloc_fragment((64, 64), "float32")
P = T.alloc_fragment((64, 64), "float16")
acc = T.alloc_fragment((64, 64), "float32")
m = T.alloc_fragment((64,), "float32")
T.copy(Q[bx * 64, 0], Q_s)
T.clear(acc)
T.fill(m, -1e30)
for k in T.Pipelined(4, num_stages=2):
    T.copy(K[k * 64, 0], K_s)
    T.clear(S)
    T.gemm(Q_s, K_s, S, transpose_B=True)
    T.reduce_max(S, m, dim=1, clear=False)
    for i, j in T.Parallel(64, 64):
        S[i, j] = T.exp2(S[i, j] - m[i])
    T.copy(S, P)
    T.gemm(P, K_s, acc)
T.copy(acc, O[bx * 64, 0])
"""
MATRICES = 'Q: T.Tensor((256, 64), "float16"), K: T.Tensor((256, 64), "float16"), O: T.Tensor((256, 64), "float32")'


def test_attention(make):
    program = make(ATTENTION, params=MATRICES, grid="4").bind()
    assert shown(program) == golden("""
        factory(Q: float16[256, 64], K: float16[256, 64], O: float32[256, 64])
          grid: bx = 4; 128 threads @7
            buffer Q_s: shared.dyn float16[64, 64] 8192 B @8
            buffer K_s: shared.dyn float16[64, 64] 8192 B @9
            buffer S: local.fragment float32[64, 64] 16384 B @10
            buffer P: local.fragment float16[64, 64] 8192 B @11
            buffer acc: local.fragment float32[64, 64] 16384 B @12
            buffer m: local.fragment float32[64] 256 B @13
            copy Q->Q_s: Q[bx * 64, 0], Q_s: 64x64 @14
            clear acc: acc @15
            fill m: m @16
            loop k: pipelined 4, 2 stages @17
              copy K->K_s: K[k * 64, 0], K_s: 64x64 @18
              clear S: S @19
              gemm S: Q_s, K_s, S: 64x64x64, B^T @20
              reduce_max S: S, m: dim 1, accumulating @21
              parallel S: i = 64, j = 64 @22
              copy S->P: S, P: 64x64 @24
              gemm acc: P, K_s, acc: 64x64x64 @25
            copy acc->O: acc, O[bx * 64, 0]: 64x64 @26
        """)


CONTROL = """\
v = T.alloc_var("float32")
s = T.alloc_shared((64,), "float32")
T.use_swizzle(8)
v = 0.0
for i in T.serial(8):
    v += A[i]
    if v > 3.0:
        O[i] = v
    else:
        O[i + 1] = v
for i in T.unroll(4):
    O[i] = 0.0
x = A[3] + 1.0
O[5] = x
T.atomic_add(O[0], 1.0)
T.copy(A[0], s)
T.copy(A[0], s)
T.atomic_add(O[0], s)
T.sync_threads()
while v < 10.0:
    v = v + 1.0
"""


def test_control_flow(make):
    assert shown(make(CONTROL).bind()) == golden("""
        factory(A: float32[256], O: float32[256])
          grid: bx = 1; 128 threads @7
            buffer v: local.var float32[1] 4 B @8
            buffer s: shared.dyn float32[64] 256 B @9
            threadblock_swizzle_pattern: T.tvm_tuple("rasterization2DRow", 8) @7
              store v: v[0] = T.float32(0.0) @11
              loop i: serial 8 @12
                store v#2: v[0] = v[0] + A[i] @13
                if: v[0] > T.float32(3.0) @14
                  store O: O[i] = v[0] @15
                  store O#2: O[i + 1] = v[0] @17
              loop i#2: unrolled 4 @18
                store O#3: O[i] = T.float32(0.0) @19
              let x: A[3] + T.float32(1.0) @20
              store O#4: O[5] = x @21
              atomic_add O: O[0] @22
              copy A->s: A[0], s: 64 @23
              copy A->s#2: A[0], s: 64 @24
              atomic_add O#2: s, O[0]: 64 @25
              sync_threads @26
              while: v[0] < T.float32(10.0) @27
                store v#3: v[0] = v[0] + T.float32(1.0) @28
        """)


def test_find(gemm):
    outline = gemm.bind(m=512, n=256, k=1024).outline()
    for label in outline.labels:
        assert outline.find(label).label == label
    assert outline.find("gemm").label == "gemm S"
    assert outline.find("i").label == "parallel S"
    assert outline.find("bx").label == "grid"
    assert outline.find("C").label == "copy S->C"
    assert outline.find("ko").detail.stages == 3
    assert outline.find("S", "buffer").detail.nbytes == 128 * 128 * 4
    assert outline.grids[0].detail.thread_count == 128
    assert [entry.label for entry in outline.ops] == ["clear S", "copy A->A_s", "copy B->B_s", "gemm S", "copy S->C"]
    assert [entry.label for entry in outline.loops] == ["ko", "parallel S"]


def test_unknown_label(gemm):
    outline = gemm.bind(m=512, n=256, k=1024).outline()
    with pytest.raises(UnknownLabel, match="nothing in gemm is called 'gemm C'") as caught:
        outline.find("gemm C")
    assert "did you mean 'gemm S'" in str(caught.value)
    assert "labels are grid, A_s, B_s, S, clear S, ko" in str(caught.value)
    with pytest.raises(UnknownLabel, match="is called 'A_s'") as caught:
        outline.find("A_s", "loop")
    assert "labels are ko, parallel S" in str(caught.value)
    with pytest.raises(UnknownLabel, match="is called 'x'") as caught:
        outline.find("x", "if")
    assert "there is nothing of that kind" in str(caught.value)


def test_ambiguous_label(gemm):
    outline = gemm.bind(m=512, n=256, k=1024).outline()
    with pytest.raises(AmbiguousLabel, match="'copy' names 3 things in gemm") as caught:
        outline.find("copy")
    assert "use one of copy A->A_s (op), copy B->B_s (op), copy S->C (op)" in str(caught.value)


def test_macro_operations_stand_at_the_line_of_the_call(make):
    entry = make(ATTENTION, params=MATRICES, grid="4").bind().outline().find("reduce_max S")
    assert entry.span.excerpt()[0].partition("|")[2].strip() == "T.reduce_max(S, m, dim=1, clear=False)"


STATEMENTS = ["T.clear(s)", "T.fill(s, 1.0)", "T.copy(A[0], s)", "T.copy(s, O[0])", "T.copy(s, t)", "O[1] = A[1]",
              "for i in T.Parallel(64):\n    t[i] = s[i]", "for i in T.serial(2):\n    T.copy(s, t)"]  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=9))
def test_labels_are_unique_and_stable(make, statements):
    head = 's = T.alloc_shared((64,), "float32")\nt = T.alloc_shared((64,), "float32")\n'
    program = make(head + "\n".join(statements)).bind()
    outline = program.outline()
    for kinds in (("op", "store", "loop"), ("buffer",)):
        labels = [entry.label for entry in outline.of_kind(*kinds)]
        assert len(labels) == len(set(labels))
    for statement in ("T.clear(s)", "T.copy(s, t)"):
        name = {"T.clear(s)": "clear s", "T.copy(s, t)": "copy s->t"}[statement]
        count = sum(statement in line for line in statements)
        assert sum(label.partition("#")[0] == name for label in outline.labels) == count
    assert sum(len(entry.children) for entry in outline.loops) == sum("serial" in line for line in statements)
    grid = outline.grids[0].node
    after = rewrite.annotate_block(program, grid, {"tl.launch_threads": [256, 1, 1]})
    assert after.outline().labels == outline.labels
    assert [entry.span for entry in after.outline().walk()] == [entry.span for entry in outline.walk()]
