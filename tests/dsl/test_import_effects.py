import json
import subprocess
import sys

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
        assert getattr(language, name) is getattr(stock, name)
