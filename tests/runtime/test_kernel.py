"""A kernel as an object: equality, copies, pickles, other PTX, other devices."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from tilewright.runtime import Kernel, NullDevice, VgpuDevice, VirtualGpuFault


def run(kernel, n=70):
    return kernel(torch.arange(float(n)), 0.5, -3)


EXPECTED = torch.arange(70.0) * 0.5 - 3


def test_runs_on_the_virtual_gpu(affine):
    assert torch.equal(run(affine), EXPECTED)


def test_repr(affine):
    assert repr(affine) == "<Kernel affine(x, alpha, shift) -> y for sm_80>"


def test_pickle_and_copies(affine):
    again = pickle.loads(pickle.dumps(affine))
    assert again == affine
    assert hash(again) == hash(affine)
    assert torch.equal(run(again), EXPECTED)
    assert copy.deepcopy(affine) is affine
    assert copy.copy(affine) is affine


def test_save_and_load(affine, tmp_path):
    affine.save(tmp_path / "affine")
    loaded = Kernel.load(tmp_path / "affine", -1)
    assert loaded == affine
    assert torch.equal(run(loaded), EXPECTED)


def test_with_ptx(affine):
    other = affine.with_ptx(affine.ptx.replace("fma.rn.f32 %f4, %f1, %f2, %f3", "sub.rn.f32 %f4, %f2, %f3"))
    assert torch.equal(run(other), torch.arange(70.0) + 3)
    assert other != affine
    assert torch.equal(run(affine), EXPECTED)


def test_fault_carries_the_report(affine):
    wild = affine.with_ptx(affine.ptx.replace("st.global.f32 [%rd7], %f4", "st.global.f32 [%rd7+4096], %f4"))
    with pytest.raises(VirtualGpuFault) as caught:
        run(wild)
    assert "affine_kernel: the virtual GPU found" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 12
    assert not caught.value.report.ok


def test_reports_are_collected_on_request(affine):
    reports = []
    run(affine.on(VgpuDevice(mode="random", options=(("seed", 3),), reports=reports)))
    assert [report.ok for report in reports] == [True]


def test_null_device_by_knob(affine, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DEVICE", "null")
    x, y = torch.arange(8.0), torch.full((8,), 7.0)
    whole = Kernel(affine.artifact)
    whole(x, 1.0, 0, y)
    assert torch.equal(y, torch.full((8,), 7.0))
    monkeypatch.setenv("TILEWRIGHT_DEVICE", "vgpu")
    whole(x, 1.0, 0, y)
    assert torch.equal(y, x)


def test_device_changes_no_result_shape(affine):
    assert run(affine.on(NullDevice())).shape == (70,)


def test_source_names(affine):
    assert affine.get_kernel_source() == affine.cuda == "// cuda"
    assert affine.stages["ptx"] == affine.ptx
