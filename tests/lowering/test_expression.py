"""Expressions agree with TVM's own constant folding and refuse everything outside their whitelist."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import arith, tirx

from tilewright.lowering import Expression, compile_function
from tilewright.lowering.errors import BadExpression
from tilewright.lowering.expression import safe_name, truncdiv, truncmod, wrap
from tilewright.lowering.tir_expression import expression_of

A, B = tirx.Var("a", "int32"), tirx.Var("b", "int32")
NAMES = {A: "a", B: "b"}
BINARY = (
    tirx.Add,
    tirx.Sub,
    tirx.Min,
    tirx.Max,
)
numbers = st.integers(-1000, 1000)


def const(value):
    return tirx.IntImm("int32", value)


def trees():
    leaves = st.one_of(st.sampled_from([A, B]), numbers.map(const))

    def extend(inner):
        divisor = st.integers(1, 64).map(const)
        return st.one_of(
            st.builds(lambda op, x, y: op(x, y), st.sampled_from(BINARY), inner, inner),
            st.builds(tirx.Mul, inner, st.integers(-8, 8).map(const)),
            st.builds(lambda op, x, y: op(x, y), st.sampled_from((tirx.FloorDiv, tirx.FloorMod)), inner, divisor),
            st.builds(lambda op, x, y: op(x, y), st.sampled_from((tirx.Div, tirx.Mod)), inner, divisor),
            st.builds(lambda x, y, z: tirx.Select(x < y, y, z), inner, inner, inner),
            st.builds(lambda x: tirx.Cast("int32", tirx.Cast("int64", x)), inner),
        )

    return st.recursive(leaves, extend, max_leaves=8)


@given(trees(), numbers, numbers)
def test_agrees_with_tvm(tree, a, b):
    folded = arith.Analyzer().simplify(tirx.stmt_functor.substitute(tree, {A: const(a), B: const(b)}))
    assert isinstance(folded, tirx.IntImm)
    assert expression_of(tree, NAMES).evaluate(a=a, b=b) == int(folded)


@pytest.mark.parametrize(
    ("tree", "a", "expected"),
    [
        (A << const(3), 5, 40),
        (A >> const(1), -5, -3),
        (A & const(12), 10, 8),
        (A | const(3), 8, 11),
        (A ^ const(5), 6, 3),
        (~A, 6, -7),
        (tirx.Cast("int8", A), 200, -56),
        (tirx.Cast("uint8", A), -1, 255),
        (tirx.Not(const(1) < A), 5, 0),
        (tirx.if_then_else(tirx.And(const(1) < A, const(9) > A), A, const(7)), 10, 7),
    ],
)
def test_other_operations(tree, a, expected):
    assert int(expression_of(tree, NAMES).evaluate(a=a)) == expected


@pytest.mark.parametrize(
    ("a", "b", "quotient", "remainder"), [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1)]
)
def test_division_as_in_c(a, b, quotient, remainder):
    assert (truncdiv(a, b), truncmod(a, b)) == (quotient, remainder)


def test_wrap():
    assert [wrap(v, 8) for v in (127, 128, 255, 256, -129)] == [127, -128, -1, 0, 127]


def test_names_that_python_or_we_reserve():
    assert [safe_name(n) for n in ("M", "in", "min", "m.1", "1st", "")] == ["M", "in_", "min_", "m_1", "_1st", "_"]


def test_one_function_of_many_expressions():
    results = [Expression.parse(t) for t in ("(M + 127) // 128", "min(M, N) * 2", "7")]
    assert compile_function("launch", ("M", "N"), results)(300, 100) == (3, 200, 7)


def test_function_of_no_expressions():
    assert compile_function("launch", (), [])() == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os')", "only min, max"),
        ("(1).real", "Attribute is not allowed"),
        ("[1][0]", "Subscript is not allowed"),
        ("lambda: 1", "Lambda is not allowed"),
        ("'a' * 3", "'a' is not a number"),
        ("M +", "is not an expression"),
        ("min(M, key=N)", "only min, max"),
    ],
)
def test_rejections(text, message):
    with pytest.raises(BadExpression, match=message):
        Expression.parse(text)


def test_a_smuggled_text_is_not_run():
    with pytest.raises(BadExpression, match="only min, max"):
        Expression("print(1)", ()).evaluate()


def test_missing_variable():
    with pytest.raises(BadExpression, match="name 'N' is not defined"):
        Expression.parse("M // N").evaluate(M=1)


def test_division_by_zero():
    with pytest.raises(BadExpression, match="cannot be evaluated"):
        Expression.parse("M // N").evaluate(M=1, N=0)


def test_unbound_name_in_a_function():
    with pytest.raises(BadExpression, match="unbound or impossible names \\['N'\\]"):
        compile_function("f", ("M",), [Expression.parse("N")])


def test_overflowing_shape_product_is_exact():
    assert Expression.parse("M * N * 4").evaluate(M=2**31, N=2**31) == 2**64
