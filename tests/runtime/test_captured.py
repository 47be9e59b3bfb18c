"""Changes of what a function reads are noticed, and only those."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch

from tilewright.runtime.captured import Captured, freeze, is_library

LIMIT = 4
TABLE = {"tile": [64, 64]}


class Config:
    def __init__(self):
        self.tile = 64


CONFIG = Config()


def helper(x):
    return x + LIMIT


def reads_global(x):
    return x * LIMIT


def reads_helper(x):
    return helper(x)


def reads_table(x):
    return TABLE["tile"][0] * x


def reads_config(x):
    return CONFIG.tile * x


def reads_inside(x):
    def inner():
        return LIMIT

    return inner() + x


@pytest.fixture
def this():
    return sys.modules[__name__]


@pytest.mark.parametrize("function", [reads_global, reads_helper, reads_inside])
def test_changed_global(this, monkeypatch, function):
    before = Captured(function)
    assert before.unchanged()
    monkeypatch.setattr(this, "LIMIT", 7)
    assert not before.unchanged()
    after = Captured(function)
    assert before.key != after.key
    monkeypatch.undo()
    assert before.unchanged()
    assert Captured(function).key == before.key


def test_equal_value_of_another_identity(this, monkeypatch):
    monkeypatch.setattr(this, "LIMIT", 100000)
    before = Captured(reads_global)
    monkeypatch.setattr(this, "LIMIT", int("100000"))
    assert Captured(reads_global).key == before.key


def test_changed_helper(this, monkeypatch):
    before = Captured(reads_helper)
    monkeypatch.setattr(this, "helper", lambda x: x - 1)
    assert not before.unchanged()
    assert Captured(reads_helper).key != before.key


def test_changed_container(this, monkeypatch):
    before = Captured(reads_table)
    monkeypatch.setitem(TABLE, "tile", [64, 128])
    assert not before.unchanged()
    assert Captured(reads_table).key != before.key


def test_changed_attribute(monkeypatch):
    before = Captured(reads_config)
    assert before.unchanged()
    monkeypatch.setattr(CONFIG, "tile", 128)
    assert not before.unchanged()


def test_changed_attribute_of_an_inner_object(monkeypatch):
    monkeypatch.setattr(CONFIG, "inner", Config(), raising=False)
    before = Captured(reads_config)
    assert before.unchanged()
    monkeypatch.setattr(CONFIG.inner, "tile", 128)
    assert not before.unchanged()


def test_freeze_of_a_cycle_and_of_tensors():
    ring = []
    ring.append(ring)
    assert freeze(ring) == freeze(ring)
    weights = torch.zeros(3)
    assert freeze([weights]) == freeze([weights])
    assert freeze([weights]) != freeze([torch.zeros(3)])


def test_changed_closure():
    size = 3

    def reads(x):
        return x + size

    before = Captured(reads)
    assert before.unchanged()
    size = 4
    assert not before.unchanged()
    assert Captured(reads).key != before.key


def test_changed_name_of_a_user_module(monkeypatch):
    settings = types.ModuleType("settings_of_a_user")
    settings.TILE = 64
    monkeypatch.setitem(sys.modules, "settings_of_a_user", settings)
    namespace = {"settings": settings, "__name__": "user"}
    exec("def reads(x):\n    return settings.TILE * x\n", namespace)
    before = Captured(namespace["reads"])
    assert before.unchanged()
    settings.TILE = 128
    assert not before.unchanged()


def test_freeze_tells_types_apart():
    values = [1, True, 1.0, "1", [1], (1,), {1}, {1: 1}, None]
    assert len({freeze(value) for value in values}) == len(values)
    assert freeze({"a": [1], "b": 2}) == freeze({"b": 2, "a": [1]})


def test_libraries():
    assert is_library("json")
    assert is_library("torch")
    assert is_library("tilewright.runtime")
    assert not is_library(__name__)


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (([64, 64], 2), lambda value: value[0].append(1)),
        (torch.zeros(3), lambda value: value.add_(1)),
        (np.zeros(3), lambda value: value.__setitem__(0, 1.0)),
    ],
)
def test_a_value_changed_in_place(this, monkeypatch, value, change):
    monkeypatch.setattr(this, "LIMIT", value)
    before = Captured(reads_global)
    assert before.unchanged()
    change(value)
    assert not before.unchanged()
    assert Captured(reads_global).key != before.key


def test_zeros_of_both_signs_differ():
    assert freeze(0.0) != freeze(-0.0)
    assert freeze((0.0,)) == freeze((0.0,))
