"""The line map leads from CUDA, PTX and SASS to the lines of the kernel, also for code of TileLang's macros."""

from pathlib import Path

import pytest

from tilewright.dsl import Program, Target, kernel
from tilewright.dsl import language as T
from tilewright.errors import SourceSpan
from tilewright.lowering import line_map, lower
from tilewright.lowering.linemap import LineRecord, cuda_places
from tilewright.lowering.spans import Operation, Statement, operations, retarget, with_line_directives, with_places
from tilewright.lowering.toolchain import tilelang_folder


def two_gemms():
    @T.prim_func
    def main(
        Q: T.Tensor((64, 64), "float16"),
        K: T.Tensor((64, 64), "float16"),
        V: T.Tensor((64, 64), "float16"),
        R: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(1, threads=128):
            Qs = T.alloc_shared((64, 64), "float16")
            Ks = T.alloc_shared((64, 64), "float16")
            Vs = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            top = T.alloc_fragment((64,), "float32")
            out = T.alloc_fragment((64, 64), "float32")
            T.copy(Q, Qs)
            T.copy(K, Ks)
            T.copy(V, Vs)
            T.clear(S)
            T.clear(out)
            T.gemm(Qs, Ks, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)  # first
            T.reduce_max(S, top, dim=1)  # reduction
            for i, j in T.Parallel(64, 64):
                P[i, j] = T.exp2(S[i, j] - top[i])  # softmax
            T.gemm(P, Vs, out, policy=T.GemmWarpPolicy.FullRow)  # second
            T.copy(out, R)

    return Program.from_primfunc(main)


def line_of(comment):
    source = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(source, 1) if line.rstrip().endswith(f"# {comment}"))


@pytest.fixture(scope="module")
def program():
    return two_gemms()


def test_operations_know_their_lines(program):
    found = {(op.name.split("_")[0], op.place.line) for op in operations(program.func)}
    assert ("gemm", line_of("first")) in found
    assert ("gemm", line_of("second")) in found


@pytest.mark.parametrize(("target", "opcode"), [("sm_80", "mma.sync"), ("sm_90a", "wgmma.mma_async")])
def test_matrix_instructions_lead_to_their_gemm(program, target, opcode):
    artifact = lower(program, target=Target(target))
    assert str(tilelang_folder() / "cuda") not in "".join(
        line for line in artifact.cuda.splitlines() if line.startswith("#line")
    )
    lines = line_map(artifact)
    found = [lines.of_ptx(n).python.line for n, t in enumerate(artifact.ptx.split("\n"), 1) if opcode in t]
    assert sorted(set(found)) == [line_of("first"), line_of("second")]
    assert found == sorted(found)


def test_elementwise_code_leads_to_its_expression(program):
    artifact = lower(program, target=Target("sm_80"))
    lines = line_map(artifact)
    records = [lines.of_ptx(n) for n, text in enumerate(artifact.ptx.split("\n"), 1) if "ex2.approx" in text]
    assert {record.python.line for record in records} == {line_of("softmax")}
    assert {lines.of_cuda(record.cuda).line for record in records} == {line_of("softmax")}


def test_macros_of_the_language_lead_to_their_call(program):
    artifact = lower(program, target=Target("sm_80"))
    lines = line_map(artifact)
    shuffles = [lines.of_ptx(n) for n, text in enumerate(artifact.ptx.split("\n"), 1) if "shfl.sync" in text]
    assert {record.python.line for record in shuffles} == {line_of("reduction")}


def test_sass_leads_to_the_kernel(program):
    artifact = lower(program, target=Target("sm_80"))
    lines = line_map(artifact, sass=True)
    places = {r.python.line for r in lines.records if r.address is not None and r.python is not None}
    assert {line_of("first"), line_of("second"), line_of("softmax")} <= places
    mapped = [r for r in lines.records if r.address is not None]
    assert len([r for r in mapped if r.python is not None]) > 0.9 * len(mapped)
    assert f"{__file__}:{line_of('second')}  cuda " in lines.text()


def test_every_line_keeps_its_place_for_the_compiler():
    cuda = 'void k() {\n#line 7 "a.py"\n  f();\n  g(1 \\\n  );\n}'
    assert (
        with_line_directives(cuda)
        == 'void k() {\n#line 7 "a.py"\n  f();\n#line 7 "a.py"\n  g(1 \\\n  );\n#line 7 "a.py"\n}'
    )
    assert cuda_places(cuda)[0] is None
    assert {str(place) for place in cuda_places(cuda)[1:]} == {"a.py:7"}


def test_macro_code_is_told_apart_by_buffers():
    macro = tilelang_folder() / "cuda" / "intrinsics" / "macro" / "mma_macro_generator.py"
    first = Operation("gemm", frozenset({"As", "Bs", "S"}), SourceSpan("k.py", 10))
    second = Operation("gemm", frozenset({"P", "Vs", "out"}), SourceSpan("k.py", 20))
    cuda = (
        f'#line 1 "{macro}"\nfence();\n#line 2 "{macro}"\nmma(S, As);\n'
        f'#line 5 "k.py"\nx();\n#line 3 "{macro}"\nmma(out);'
    )
    assert [line for line in retarget(cuda, (first, second)).split("\n") if line.startswith("#line")] == [
        '#line 10 "k.py"',
        '#line 10 "k.py"',
        '#line 5 "k.py"',
        '#line 20 "k.py"',
    ]


@kernel
def guarded(n=100):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), row: T.int32, y: T.Tensor((2, n), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((128,), "float32")
            t = T.get_thread_binding()
            tile[t] = 1.0
            if t < n:
                tile[t] = x[t]  # staged
            T.sync_threads()  # barrier
            if t < n:
                y[row, t] = tile[127 - t]  # behind a guard

    return main


def test_barriers_and_guarded_stores_have_their_own_line():
    artifact = lower(guarded.bind(), target=Target("sm_80"))
    lines = line_map(artifact)
    texts = artifact.ptx.split("\n")
    for opcode, marker in (("bar.sync", "barrier"), ("st.global", "behind a guard")):
        found = {lines.of_ptx(n).python.line for n, text in enumerate(texts, 1) if text.strip().startswith(opcode)}
        assert line_of(marker) in found


def test_lost_places_lie_between_their_neighbours():
    cuda = """#line 3 "k.py"
a[0] = 1;
__syncthreads();
#line 9 "k.py"
f();
if (t < n) {
b[i] = a[0];
}
if (t < n) {
a[i] = 2;
}
__syncthreads();"""
    known = (
        Statement("", SourceSpan("k.py", 5)),
        Statement("b", SourceSpan("k.py", 12)),
        Statement("a", SourceSpan("k.py", 3)),
    )
    assert with_places(cuda, known) == cuda.replace(
        "__syncthreads();\n#line 9", '#line 5 "k.py"\n__syncthreads();\n#line 9'
    ).replace("b[i]", '#line 12 "k.py"\nb[i]')


def test_record_of_an_unknown_line(program):
    lines = line_map(lower(program, target=Target("sm_80")))
    assert lines.of_ptx(1) is None
    assert lines.of_cuda(0) is None
    assert isinstance(lines.records[0], LineRecord)
