import json
import subprocess
import sys

import pytest

CODE = """
import ctypes, inspect, json, os, signal, sys
libc = ctypes.CDLL(None)

def handler():
    saved = ctypes.create_string_buffer(256)
    libc.sigaction(int(signal.SIGSEGV), None, saved)
    return saved.raw[:8].hex()

before = dict(os.environ), sys.excepthook, inspect.getfile, list(sys.path), handler()
import tilewright.dsl
after = dict(os.environ), sys.excepthook, inspect.getfile, list(sys.path), handler()
import tilelang
print(json.dumps({
    "environment": before[0] == after[0],
    "excepthook": before[1] is after[1],
    "getfile": before[2] is after[2],
    "path": after[3][: len(before[3])] == before[3],
    "handler": before[4] == after[4],
    "templates": os.path.isdir(str(tilelang.env.TILELANG_TEMPLATE_PATH)),
    "cutlass": os.path.isdir(str(tilelang.env.CUTLASS_INCLUDE_DIR)),
}))
"""


def test_importing_leaves_the_process_as_it_was():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    assert json.loads(done.stdout) == dict.fromkeys(
        ("environment", "excepthook", "getfile", "path", "handler", "templates", "cutlass"), True
    )


def test_language_is_a_drop_in():
    import tilelang.language as stock

    from tilewright import language

    for name in (name for name in vars(stock) if not name.startswith("_")):
        assert name == "prim_func" or getattr(language, name) is getattr(stock, name)


def test_prim_func_is_that_of_tilelang_with_translated_errors():
    import tilelang.language as stock

    from tilewright import language
    from tilewright.dsl.errors import ShapeMismatch

    def main(A: language.Tensor((64,), "float32")):
        with language.Kernel(1, threads=64):
            A[0] = 1.0

    def wrong(A: language.Tensor((64,), "float32")):
        with language.Kernel(1, threads=64):
            s = language.alloc_shared((32,), "float32")
            language.copy(A, s)

    plain, parenthesised = language.prim_func(main), language.prim_func()(main)
    assert plain.script() == parenthesised.script() == stock.prim_func(main).script()
    with pytest.raises(ShapeMismatch, match=r"copy: A \(64,\) does not have the shape of s \(32,\)") as caught:
        language.prim_func(wrong)
    assert caught.value.span.excerpt()[0].endswith("language.copy(A, s)")
