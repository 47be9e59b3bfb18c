"""The CUDA device with a recording driver: packed bytes, unpacked by the PTX signature, run on the virtual GPU."""

from __future__ import annotations

import dataclasses
import threading

import pytest
import torch
from cuda.bindings import driver as cuda

from tilewright.runtime import CudaDevice, Kernel, errors
from tilewright.runtime.devices.cuda import LaunchShape
from tilewright.runtime.devices.driver import _require, data_type, launch_config


@pytest.fixture
def whole(affine):
    return Kernel(affine.artifact)


def test_packed_parameters_compute_the_right_values(whole, recorded):
    x, y = torch.arange(70.0), torch.zeros(70)
    kernel, driver = recorded(whole, x, y)
    for alpha, shift in ((0.5, -3), (-2.0, 127)):
        kernel(x, alpha, shift, y)
        assert torch.equal(y, x * alpha + shift)
    assert [launch.grid for launch in driver.launches] == [(3, 1, 1)] * 2
    assert driver.launches[0].args[:2] == [0.5, 70]
    assert len(driver.images) == 1


def test_ptx_is_loaded_when_there_is_no_cubin(whole, recorded):
    kernel, driver = recorded(whole, x := torch.zeros(4), y := torch.zeros(4))
    kernel(x, 1.0, 0, y)
    assert driver.images == [whole.ptx.encode() + b"\0"]


def test_dynamic_shared_memory_is_allowed_once_and_raised(tools, recorded):
    plan = tools.affine_plan()
    launch = dataclasses.replace(plan.launches[0], dynamic_shared=tools.e("n * 4")[0], cluster=(1, 1, 1))
    kernel = Kernel(tools.artifact(dataclasses.replace(plan, launches=(launch,)), tools.affine_ptx, "sm_90a"))
    tensors = [torch.zeros(n) for n in (8, 16)]
    outputs = [torch.zeros(n) for n in (8, 16)]
    kernel, driver = recorded(kernel, *tensors, *outputs)
    for index in (0, 0, 1, 0):
        kernel(tensors[index], 1.0, 1, outputs[index])
    assert driver.shared == [("affine_kernel", -1, 32), ("affine_kernel", -1, 64)]
    assert [entry.shared for entry in driver.launches] == [32, 32, 64, 32]
    assert driver.launches[0].shape.cluster == (1, 1, 1)


def test_grid_too_large(tools, recorded):
    plan = tools.affine_plan()
    launch = dataclasses.replace(plan.launches[0], grid=tools.e(1, "n * 65536", 1))
    kernel, _ = recorded(
        Kernel(tools.artifact(dataclasses.replace(plan, launches=(launch,)), tools.affine_ptx, "sm_80"))
    )
    with pytest.raises(errors.DriverError, match=r"a grid of \(1, 65536, 1\) blocks is larger than CUDA takes"):
        kernel(torch.zeros(1), 1.0, 0, torch.zeros(1))


def test_threads_do_not_share_a_buffer(whole):
    """Two launches under way at once pack into different buffers."""
    inside = threading.Barrier(2)
    addresses = []

    class Slow:
        encode = None

        def load(self, image, device):
            return image

        def kernel(self, library, name):
            return name

        def launch(self, kernel, shape, device, grid, block, shared, parameters):
            addresses.append(parameters)
            inside.wait(10)

    kernel = whole.on(CudaDevice(Slow()))
    kernel._prepare(-1)
    x, y = torch.zeros(4), torch.zeros(4)
    threads = [threading.Thread(target=kernel, args=(x, 1.0, 0, y)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(set(addresses)) == 2


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("float16", "FLOAT16"),
        ("bfloat16", "BFLOAT16"),
        ("float8_e4m3fn", "UINT8"),
        ("int8", "UINT8"),
        ("float32", "FLOAT32"),
    ],
)
def test_tensor_map_types(dtype, name):
    assert data_type(dtype) == getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name}")


def test_type_without_a_tensor_map():
    with pytest.raises(errors.DriverError, match="a tensor map cannot hold elements of type complex64"):
        data_type("complex64")


def test_launch_attributes():
    """Cluster, cooperative and programmatic launches each set their attribute of the driver's configuration."""
    shape = LaunchShape("k", (2, 1, 1), cooperative=True, programmatic=True)
    config = launch_config(shape, (4, 5, 6), (32, 1, 1), 1024, 7)
    ids = cuda.CUlaunchAttributeID
    assert [attribute.id for attribute in config.attrs] == [
        ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
    ]
    sides = config.attrs[0].value.clusterDim
    assert (sides.x, sides.y, sides.z) == (2, 1, 1)
    assert (config.gridDimX, config.gridDimY, config.gridDimZ, config.sharedMemBytes) == (4, 5, 6, 1024)
    assert (config.blockDimX, int(config.hStream)) == (32, 7)
    assert launch_config(LaunchShape("k", None, False, False), (1, 1, 1), (1, 1, 1), 0, 0).numAttrs == 0


def test_without_cuda(monkeypatch):
    from tilewright.runtime.kernel import cuda_device

    cuda_device.cache_clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(errors.DriverError, match="torch sees no CUDA device"):
        cuda_device()


def test_driver_errors_name_the_status():
    _require(cuda.CUresult.CUDA_SUCCESS, "nothing")
    with pytest.raises(errors.DriverError, match="launch of k failed: CUDA_ERROR_INVALID_VALUE"):
        _require(cuda.CUresult.CUDA_ERROR_INVALID_VALUE, "launch of k")
    with pytest.raises(errors.DriverError, match="compile for the target of this GPU"):
        _require(cuda.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, "loading the kernel on cuda:0")
