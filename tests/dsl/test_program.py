import copy
import dataclasses
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright import language as T
from tilewright.dsl import Program, ScalarParam, TensorParam, keep_span, kernel, place, stmt_span, tirx
from tilewright.dsl.errors import NotAPrimFunc


@kernel
def scaled(m, n=64, *, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), alpha: T.float32):
        with T.Kernel(T.ceildiv(m, 16), threads=64) as bx:
            for i, j in T.Parallel(16, n):
                B[bx * 16 + i, j] = A[bx * 16 + i, j] * alpha

    return main


def test_parameters_in_signature_order():
    program = scaled.bind(m=32)
    assert program.params == (
        TensorParam("A", "float32", (32, 64), (64, 1)),
        TensorParam("B", "float32", (32, 64), (64, 1)),
        ScalarParam("alpha", "float32"),
    )


def test_symbolic_shapes_are_text():
    program = scaled.bind(m=T.dynamic("m"))
    assert program.params[0] == TensorParam("A", "float32", ("m", 64), (64, 1))


def test_variables_have_their_dtype():
    assert dict(scaled.bind(m=T.dynamic("rows")).variables) == {"rows": "int32"}
    assert dict(scaled.bind(m=T.dynamic("rows", "int64"), n=16).variables) == {"rows": "int64"}
    assert dict(scaled.bind(m=32).variables) == {}


def test_name_bindings_and_source():
    program = scaled.bind(m=32, dtype="float16")
    assert program.name == "scaled"
    assert program.bindings == {"m": 32, "n": 64, "dtype": "float16"}
    assert program.source.file == __file__
    assert program.source.text.lstrip().startswith("@T.prim_func")
    assert "def main" in program.source.text


def test_pickle_and_copy_keep_the_program():
    program = scaled.bind(m=32)
    for twin in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program)):
        assert twin == program
        assert twin.fingerprint == program.fingerprint
        assert (twin.bindings, twin.source, str(twin.outline())) == (
            program.bindings,
            program.source,
            str(program.outline()),
        )


def test_immutable():
    program = scaled.bind(m=32)
    for field in dataclasses.fields(program):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(program, field.name, None)
    with pytest.raises(TypeError, match="does not support item assignment"):
        program.bindings["m"] = 64


def test_equal_by_content():
    first, second, other = scaled.bind(m=32), scaled.bind(m=32), scaled.bind(m=48)
    assert first == second
    assert hash(first) == hash(second)
    assert first.fingerprint == second.fingerprint
    assert first != other
    assert first.fingerprint != other.fingerprint
    assert first != "first"


def test_fingerprint_does_not_depend_on_what_was_built_before():
    before = scaled.bind(m=32).fingerprint
    for m in (16, 48, 64):
        scaled.bind(m=m)
    assert scaled.bind(m=32).fingerprint == before


@settings(max_examples=12, deadline=None)
@given(
    m=st.integers(1, 6).map(lambda k: 16 * k),
    n=st.sampled_from([8, 16, 32]),
    dtype=st.sampled_from(["float16", "float32"]),
)
def test_fingerprints_tell_bindings_apart(m, n, dtype):
    program, reference = scaled.bind(m=m, n=n, dtype=dtype), scaled.bind(m=32, n=16, dtype="float32")
    same = (m, n, dtype) == (32, 16, "float32")
    assert (program.fingerprint == reference.fingerprint) is same
    assert (program == reference) is same


def test_from_primfunc_takes_any_prim_func():
    func = scaled.factory(16)
    program = Program.from_primfunc(func)
    assert program.name == "main"
    assert program.func.same_as(func)
    assert program.bindings == {}


@pytest.mark.parametrize("value", [None, "main", scaled])
def test_from_primfunc_refuses_other_things(value):
    with pytest.raises(NotAPrimFunc, match=f"needs a TileLang PrimFunc, got {type(value).__name__}"):
        Program.from_primfunc(value)


def test_with_func_keeps_name_source_and_span():
    program = scaled.bind(m=32)
    rebuilt = program.func.with_body(tirx.SeqStmt([program.func.body, tirx.Evaluate(0)]))
    assert rebuilt.span is None
    after = program.with_func(rebuilt)
    assert (after.name, after.source, after.bindings) == (program.name, program.source, program.bindings)
    assert place(after.func.span) == place(program.func.span)
    assert program.with_func(program.func) is program
    with pytest.raises(NotAPrimFunc, match=r"Program\.with_func"):
        program.with_func(3)


def test_spans_point_at_statements():
    loop = scaled.bind(m=32).outline().find("parallel B")
    assert loop.span.file == __file__
    assert loop.span.excerpt()[0].partition("|")[2].strip() == "for i, j in T.Parallel(16, n):"
    assert loop.span.excerpt()[1].index("^") == loop.span.excerpt()[0].index("for")


def test_keep_span_copies_onto_new_nodes():
    loop = scaled.bind(m=32).outline().find("parallel B").node
    bare = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, None, {})
    assert stmt_span(bare) is None
    assert place(stmt_span(keep_span(bare, loop))) == place(stmt_span(loop))
