import logging

import pytest

from tilewright import language as T
from tilewright.dsl import kernel, load_source, translate_build_errors
from tilewright.dsl.errors import (
    BuildError,
    DtypeError,
    ImmutableName,
    IndexOutOfRange,
    ShapeMismatch,
    SourceUnavailable,
    ThreadError,
    UndefinedName,
)
from tilewright.errors import TilewrightError

MISTAKES = {
    "copy of other shape": (
        "s = T.alloc_shared((32, 64), 'float32')\nt = T.alloc_shared((64, 32), 'float32')\nT.copy(s, t)",
        ShapeMismatch, "T.copy(s, t)", "copy: s (32, 64) does not have the shape of t (64, 32)",
    ),
    "gemm K": (
        "a = T.alloc_shared((64, 32), 'float16')\nb = T.alloc_shared((64, 64), 'float16')\n"
        "c = T.alloc_fragment((64, 64), 'float32')\nT.gemm(a, b, c)",
        ShapeMismatch, "T.gemm(a, b, c)", "gemm: K differs: 32 and 64",
    ),
    "undefined name": ("x = lenght + 1", UndefinedName, "x = lenght + 1", "name 'lenght' is not defined"),
    "misspelt name": ("scale = 2.0\nO[0] = A[0] * scal", UndefinedName, "O[0] = A[0] * scal", "did you mean 'scale'?"),
    "misspelt operation": ("T.clea(A)", UndefinedName, "T.clea(A)", "did you mean T.clear"),
    "rank": ("O[0] = A[0, 1]", IndexOutOfRange, "O[0] = A[0, 1]", "A has 1 dimension and is indexed with 2"),
    "python float": (
        "s = T.alloc_shared((8,), float)", DtypeError, "s = T.alloc_shared((8,), float)",
        "a dtype must be given by name",
    ),
    "floor division": (
        "O[0] = A[0] // 2.0", DtypeError, "O[0] = A[0] // 2.0", "need integers: A[0] (float32) and 2.0 (float)",
    ),
    "number as condition": ("x = A[0] and A[1]\nO[0] = x", DtypeError, "x = A[0] and A[1]", "a condition is needed"),
    "name from a closed block": (
        "for i in T.serial(4):\n    x = A[i] + 1.0\nO[0] = x", ImmutableName, "O[0] = x",
        "'x' is used outside the block",
    ),
    "reduce shape": (
        "s = T.alloc_fragment((32, 64), 'float32')\nt = T.alloc_fragment((64,), 'float32')\nT.reduce_max(s, t, dim=1)",
        BuildError, "T.reduce_max(s, t, dim=1)", "Invalid reduce output shape",
    ),
    "nested too deep": (
        "if A.shape[0] == 0:\n    O[0] = 0\n"
        + "".join(f"elif A.shape[0] == {n}:\n    O[0] = {n}\n" for n in range(1, 12)),
        BuildError, "elif A.shape[0] == 9:", "the kernel nests too deep",
    ),
    "loop over a buffer": ("for i in A:\n    O[0] = i", BuildError, "for i in A:", "not iterable"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_the_line(refusal, capfd, name):
    body, kind, line, text = MISTAKES[name]
    error = refusal(body)
    assert isinstance(error, kind)
    assert text in str(error)
    assert error.span.excerpt()[0].partition("|")[2].strip() == line
    assert error.span.excerpt()[1].strip(" |") == "^"
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize(
    ("alias", "dtype"),
    [("half", "float16"), ("fp16", "float16"), ("bf16", "bfloat16"), ("f32", "float32"), ("double", "float64")],
)
def test_other_spellings_of_dtypes(refusal, alias, dtype):
    error = refusal(f"s = T.alloc_shared((8,), {alias!r})")
    assert isinstance(error, DtypeError)
    assert f"unknown dtype {alias!r}" in str(error)
    assert f"use {dtype!r}; dtypes are float16, bfloat16" in str(error)


def test_gemm_values_are_shown(refusal):
    body, *_ = MISTAKES["gemm K"]
    assert "seen: A = a (64, 32), B = b (64, 64), C = c (64, 64)" in str(refusal(body))


def test_undefined_name_has_its_column(refusal):
    error = refusal("O[0] = A[0] + lenght")
    assert error.span.excerpt()[0].index("lenght") == error.span.excerpt()[1].index("^")


def test_dtype_of_a_parameter(refusal):
    error = refusal("O[0] = A[0]", params='A: T.Tensor((8,), "fp16"), O: T.Tensor((8,), "float32")')
    assert isinstance(error, DtypeError)
    assert "unknown dtype 'fp16'" in str(error)


def test_thread_count_zero(refusal):
    error = refusal("O[0] = A[0]", threads=0)
    assert isinstance(error, ThreadError)
    assert "threads must be positive, got 0" in str(error)


def test_error_in_the_factory_itself(refusal):
    error = refusal("O[0] = A[0]", before="size = 1 / 0")
    assert isinstance(error, BuildError)
    assert "division by zero" in str(error)
    assert "size = 1 / 0" in str(error)


def test_backend_is_hidden_unless_debugging(make, monkeypatch):
    factory = make("x = lenght + 1")
    with pytest.raises(UndefinedName, match="lenght") as caught:
        factory.bind()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    with pytest.raises(UndefinedName, match="lenght") as caught:
        factory.bind()
    assert isinstance(caught.value.__cause__, NameError)


def test_other_logging_is_untouched(capfd):
    with translate_build_errors():
        logging.getLogger("tilelang").warning("still said")
    logging.getLogger("tilelang").critical("outside")
    captured = capfd.readouterr()
    assert "still said" in captured.out + captured.err
    assert "outside" in captured.out + captured.err


def test_our_own_errors_pass_through():
    with pytest.raises(TilewrightError, match="mine"), translate_build_errors():
        raise TilewrightError("mine")


def test_kernels_without_source_say_why():
    text = (
        "from tilewright import language as T\ndef factory():\n    @T.prim_func\n"
        "    def main(O: T.Tensor((8,), 'float32')):\n        with T.Kernel(1, threads=32):\n            O[0] = 1.0\n"
        "    return main\n"
    )
    namespace = {}
    exec(text, namespace)
    with pytest.raises(SourceUnavailable, match="typed into an interpreter or made by exec") as caught:
        kernel(namespace["factory"]).bind()
    assert "load_source" in str(caught.value)
    assert kernel(load_source(text)["factory"]).bind().source.text.startswith("    @T.prim_func")


def test_warnings_made_errors_stay_warnings():
    with pytest.raises(DeprecationWarning, match="old"), translate_build_errors():
        raise DeprecationWarning("old")


def clamp(a):
    x = a[0]
    if x > 1.0:
        x = 1.0
    a[0] = x


def launched_clamp(a):
    with T.Kernel(1, threads=32):
        x = a[0]
        if x > 1.0:
            x = 1.0
        a[0] = x


def test_eager_bodies_are_checked_too():
    with pytest.raises(ImmutableName, match="'x' is bound outside this block"), translate_build_errors(launched_clamp):
        pass


def test_bodies_without_a_launch_are_checked_when_said_to_be_traced():
    with translate_build_errors(clamp):
        pass
    with pytest.raises(ImmutableName, match="'x' is bound outside"), translate_build_errors(clamp, traced=True):
        pass


def test_a_refused_body_is_refused_every_time():
    for _ in range(2):
        with pytest.raises(ImmutableName, match="'x' is bound outside"), translate_build_errors(launched_clamp):
            pass
