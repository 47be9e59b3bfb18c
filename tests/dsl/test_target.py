import pytest

from tilewright.dsl import Target
from tilewright.dsl.errors import UnknownTarget


@pytest.mark.parametrize(
    ("name", "arch", "shared"),
    # CUDA C++ Programming Guide, table "technical specifications": 163, 99 and 227 KB for a block
    [("sm_80", 80, 163 * 1024), ("sm_89", 89, 99 * 1024), ("sm_90a", 90, 227 * 1024), ("sm_100a", 100, 227 * 1024)],
)
def test_limits(name, arch, shared):
    target = Target(name)
    assert (target.arch, target.max_dynamic_shared, target.max_static_shared) == (arch, shared, 48 * 1024)
    assert (target.max_threads, target.warp_size, target.registers_per_sm) == (1024, 32, 64 * 1024)


def test_features():
    assert [Target(name).has_wgmma for name in ("sm_80", "sm_89", "sm_90a", "sm_100a")] == [False, False, True, False]
    assert [Target(name).has_tma for name in ("sm_80", "sm_89", "sm_90a")] == [False, False, True]
    assert [Target(name).has_fp8_mma for name in ("sm_80", "sm_89", "sm_90a")] == [False, True, True]
    assert [Target(name).has_cp_async for name in ("sm_80", "ascend")] == [True, False]
    assert Target("sm_100a").has_tcgen05


def test_value_semantics():
    assert Target("sm_80") == Target("sm_80") != Target("sm_89")
    assert len({Target("sm_80"), Target("sm_80"), Target("sm_90a")}) == 2
    assert str(Target("sm_80")) == "sm_80"
    with pytest.raises(AttributeError):
        Target("sm_80").name = "sm_89"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("sm_9oa", "did you mean sm_90a"),
        ("sm_90", "use 'sm_90a'"),
        ("sm80", "use 'sm_80'"),
        ("SM_90A", "use 'sm_90a'"),
        ("compute_89", "use 'sm_89'"),
        ("sm_100", "use 'sm_100a'"),
        ("hopper", "use 'sm_90a'"),
        ("gfx942", "use one of sm_80, sm_89, sm_90a, sm_100a, ascend"),
    ],
)
def test_unknown_names_get_advice(name, advice):
    with pytest.raises(UnknownTarget, match=f"unknown target '{name}'") as caught:
        Target(name)
    assert advice in str(caught.value)


def test_a_target_is_a_name():
    with pytest.raises(UnknownTarget, match="must be a name, got int"):
        Target(90)


def test_default_follows_the_knob(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_TARGET", "sm_89")
    assert Target.default() == Target("sm_89")
    monkeypatch.setenv("TILEWRIGHT_TARGET", "sm_8")
    with pytest.raises(UnknownTarget, match="unknown target 'sm_8'"):
        Target.default()


@pytest.mark.parametrize(
    ("capability", "name"),
    [((8, 0), "sm_80"), ((8, 6), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((7, 5), "sm_90a")],
)
def test_default_follows_the_gpu(monkeypatch, capability, name):
    import torch

    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert Target.default() == Target(name)
