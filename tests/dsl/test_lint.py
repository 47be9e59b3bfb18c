import pytest
import tilelang.language as T

from tilewright.dsl import lint_function
from tilewright.dsl.errors import ImmutableName, PipelineError

LOST = {
    "clamp": "x = A[0]\nif x > 1.0:\n    x = 1.0\nO[0] = x",
    "expression": "x = A[0]\nif x > 1.0:\n    x = A[0] * 2\nO[0] = x",
    "sum": "x = 0.0\nfor i in T.serial(8):\n    x += A[i]\nO[0] = x",
    "sum over range": "x = 0.0\nfor i in range(8):\n    x = x + A[i]\nO[0] = x",
    "annotated": "x: T.float32 = 0.0\nfor i in T.serial(8):\n    x += A[i]\nO[0] = x",
    "nested": "x = T.max(A[0], 0.0)\nfor i in T.serial(4):\n    if x > 1.0:\n        x = 1.0\n    O[i] = x",
    "carried": "x = 0.0\nfor i in T.serial(4):\n    O[i] = x\n    x = A[i]",
    "while": "x = 0\nwhile A[0] > x:\n    x += 1",
    "both branches": "x = A[0]\nif x > 1.0:\n    x = 1.0\nelse:\n    x = 2.0\nO[0] = x",
    "tuple": "x, y = A[0], A[1]\nif y > 1.0:\n    x = 1.0\nO[0] = x",
}

FINE = {
    "variable": "x = T.alloc_var('float32')\nx = A[0]\nif x > 1.0:\n    x = 1.0\nO[0] = x",
    "static condition": "n = 4\nif causal:\n    n = 8\nfor i in T.serial(n):\n    O[i] = A[i]",
    "shadowed": "x = bx * 4\nfor k in T.serial(4):\n    x = k * 2\n    O[x] = A[x]",
    "sibling loops": "for k in T.serial(4):\n    x = k * 2\n    O[x] = A[x]\n"
    "for k in T.serial(4):\n    x = k * 4\n    O[x] = A[x]",
    "python list": "x = 0.0\nfor c in [1.0, 2.0]:\n    x = x + c * A[0]\nO[0] = x",
    "static shape": "n = A.shape[0]\nif n > 4:\n    n = 4\nfor i in T.serial(n):\n    O[i] = A[i]",
    "variable then loop target": "d = T.alloc_var('int32')\nd = 0\nfor i in T.serial(4):\n    d = d + 1\n"
    "for d in T.Parallel(2):\n    O[d] = A[d]",
    "never read again": "x = A[0]\nO[0] = x\nif A[1] > 1.0:\n    x = 1.0\n    O[1] = x",
    "buffer": "f = T.alloc_fragment((256,), 'float32')\nfor i in T.Parallel(256):\n    f[i] = A[i]\n"
    "for i in T.Parallel(256):\n    f[i] += 1.0\nT.copy(f, O)",
}  # fmt: skip


@pytest.mark.parametrize("body", LOST.values(), ids=LOST)
def test_lost_assignments_are_refused_at_their_line(refusal, body):
    error = refusal(body)
    assert isinstance(error, ImmutableName)
    line = error.span.excerpt()[0]
    assert line.partition("|")[2].strip().startswith("x")
    assert "'x' is bound outside this block" in str(error)
    assert "x = T.alloc_var(dtype)" in str(error)


@pytest.mark.parametrize("body", FINE.values(), ids=FINE)
def test_harmless_assignments_pass(make, body):
    assert make(body, before="causal = True").bind().name == "factory"


def test_negative_depth_is_refused(refusal):
    error = refusal("for k in T.Pipelined(4, num_stages=-1):\n    O[k] = A[k]")
    assert isinstance(error, PipelineError)
    assert "num_stages = -1 is no pipeline depth" in str(error)


def test_negative_depth_in_a_captured_name_is_refused(refusal):
    error = refusal("for k in T.Pipelined(4, num_stages=depth):\n    O[k] = A[k]", before="depth = 1 - 3")
    assert "num_stages = -2 is no pipeline depth" in str(error)


def test_no_pipeline_is_fine(make):
    body = "for k in T.Pipelined(4, num_stages=0):\n    O[k] = A[k]"
    assert make(body).bind().outline().find("k").detail.stages is None


def by_type(x, kind):
    x: T.Tensor((64,), "float32")
    step = 16
    if kind == T.int32:
        step = 32
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            x[i] = step


def by_value(x, kind: T.int32):
    x: T.Tensor((64,), "float32")
    step = 16
    if kind == 3:
        step = 32
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            x[i] = step


def test_undeclared_parameters_of_an_eager_kernel_are_known_when_it_is_built():
    lint_function(by_type, traced=True)
    with pytest.raises(ImmutableName, match="'step' is bound outside this block"):
        lint_function(by_value, traced=True)
