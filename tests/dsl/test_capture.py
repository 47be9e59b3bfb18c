import sys
import types

import numpy as np
import pytest

from tilewright import language as T
from tilewright.dsl import captured_state, load_source

MODULE = """\
TILE = 64
TABLE = [1, 2, 3]

def scale(x):
    return x * factor()

def factor():
    return 2

def reads(n):
    return scale(n) + TILE + len(TABLE)
"""


@pytest.fixture
def module():
    return load_source(MODULE, "<captured>")


def test_state_is_stable(module):
    assert captured_state(module["reads"]) == captured_state(module["reads"])
    assert captured_state(module["reads"]) == captured_state(load_source(MODULE, "<captured>")["reads"])


def test_names_and_values_are_listed(module):
    state = dict(captured_state(module["reads"]))
    assert state["<captured>.reads:TILE"] == "64"
    assert state["<captured>.reads:TABLE"] == "list(1, 2, 3)"
    assert "<captured>.factor" in state


@pytest.mark.parametrize(
    ("old", "new"),
    [("TILE = 64", "TILE = 32"), ("return 2", "return 3"), ("[1, 2, 3]", "[1, 2, 4]"), ("x * factor", "x + factor")],
)
def test_changes_anywhere_show(module, old, new):
    other = load_source(MODULE.replace(old, new), "<captured>")
    assert captured_state(module["reads"]) != captured_state(other["reads"])


def test_unrelated_changes_do_not_show(module):
    other = load_source(MODULE + "\ndef unrelated():\n    return 9\n", "<captured>")
    assert captured_state(module["reads"]) == captured_state(other["reads"])


def closure_over(value):
    def inner():
        return value

    return inner


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 2),
        (1, 1.0),
        ((1, 2), [1, 2]),
        ({"a": 1}, {"a": 2}),
        (np.zeros(3000), np.concatenate([np.zeros(1500), [1.0], np.zeros(1499)])),
        ("float16", "bfloat16"),
        (None, False),
        (len, sum),
        (int, float),
        (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    ],
)
def test_closures_count_by_value(first, second):
    assert captured_state(closure_over(first)) == captured_state(closure_over(first))
    assert captured_state(closure_over(first)) != captured_state(closure_over(second))


def test_tensors_count_by_content():
    import torch

    ones, other = torch.ones(2000), torch.ones(2000)
    other[1000] = 2
    assert captured_state(closure_over(ones)) == captured_state(closure_over(torch.ones(2000)))
    assert captured_state(closure_over(ones)) != captured_state(closure_over(other))


def test_objects_without_a_value_are_told_apart_by_state():
    class Thing:
        def __init__(self, a):
            self.a = a

    assert captured_state(closure_over(Thing(1))) == captured_state(closure_over(Thing(1)))
    assert captured_state(closure_over(Thing(1))) != captured_state(closure_over(Thing(2)))


def test_attributes_of_user_modules(monkeypatch):
    settings = types.ModuleType("settings_of_a_user")
    settings.__file__ = __file__
    settings.TILE = 1
    monkeypatch.setitem(sys.modules, settings.__name__, settings)
    namespace = load_source("def reads():\n    return settings.TILE\n", "<settings>")
    namespace["settings"] = settings
    before = captured_state(namespace["reads"])
    settings.TILE = 2
    assert captured_state(namespace["reads"]) != before


@T.macro
def doubled(x):
    return x * 2.0


def uses_macro():
    return doubled


def test_macros_are_followed():
    state = dict(captured_state(uses_macro))
    assert f"{__name__}.doubled" in state


def test_recursion_ends():
    namespace = load_source("def f(n):\n    return g(n)\n\ndef g(n):\n    return f(n)\n", "<recursive>")
    assert {"<recursive>.f", "<recursive>.g"} <= set(dict(captured_state(namespace["f"])))


def test_defaults_count():
    def one(a=1):
        return a

    def state(default):
        one.__defaults__ = (default,)
        return captured_state(one)

    assert state(1) != state(2)
