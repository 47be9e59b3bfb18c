"""A convolution whose pixels TMA gathers in im2col mode: the virtual GPU, the packed parameters, the driver call."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from cuda.bindings import driver as cuda

import tilewright as tw
from tilewright import language as T
from tilewright.lowering import TensorMapParameter
from tilewright.runtime.devices.driver import CudaDriver

N, H, W, C, F = 2, 7, 8, 32, 64


@pytest.fixture(scope="module", params=[1, 2], ids=["stride 1", "stride 2"])
def convolution(request):
    stride = request.param
    oh, ow = (H - 1) // stride + 1, (W - 1) // stride + 1

    @T.prim_func
    def main(
        data: T.Tensor((N, H, W, C), "float16"),
        weight: T.Tensor((9 * C, F), "float16"),
        out: T.Tensor((N * oh * ow, F), "float32"),
    ):
        with T.Kernel(T.ceildiv(N * oh * ow, 64), threads=128) as bx:
            pixels = T.alloc_shared((64, C), "float16")
            taps = T.alloc_shared((C, F), "float16")
            total = T.alloc_fragment((64, F), "float32")
            T.clear(total)
            for k in T.Pipelined(9, num_stages=2):
                T.im2col(data, pixels, bx, k, 3, stride, 1, 1)
                T.copy(weight[k * C, 0], taps)
                T.gemm(pixels, taps, total)
            T.copy(total, out[bx * 64, 0])

    generator = torch.Generator().manual_seed(3)
    data = torch.randn(N, H, W, C, generator=generator).half()
    weight = torch.randn(9 * C, F, generator=generator).half()
    filters = weight.double().view(3, 3, C, F).permute(3, 2, 0, 1)
    expected = torch.nn.functional.conv2d(data.double().permute(0, 3, 1, 2), filters, stride=stride, padding=1)
    expected = expected.permute(0, 2, 3, 1).reshape(-1, F)
    return SimpleNamespace(kernel=tw.compile(main, target="sm_90a"), data=data, weight=weight, expected=expected)


def test_equals_torch_on_every_device(convolution, recorded):
    out = torch.zeros(convolution.expected.shape)
    convolution.kernel(convolution.data, convolution.weight, out)
    torch.testing.assert_close(out.double(), convolution.expected, rtol=1e-4, atol=1e-4)
    packed = torch.zeros_like(out)
    kernel, driver = recorded(convolution.kernel, convolution.data, convolution.weight, packed)
    kernel(convolution.data, convolution.weight, packed)
    assert torch.equal(packed, out)
    assert [parameter.lower_corner for parameter, *_ in driver.maps if parameter.tensor == "data"] == [(-1, -1)]


def test_the_driver_gets_corners_channels_and_pixels(monkeypatch):
    given = []

    def encode(*args):
        given.extend(args)
        return cuda.CUresult.CUDA_SUCCESS, SimpleNamespace(opaque=[7] * 16)

    monkeypatch.setattr(cuda, "cuTensorMapEncodeIm2col", encode)
    parameter = TensorMapParameter("m", "x", "float16", (), (), (), (), 0, 2, 2, 0, (-1, -2), (-3, -4))
    found = CudaDriver.encode(
        SimpleNamespace(), parameter, 4096, (32, 8, 7, 2), (64, 512, 3584), (32, 64), (1, 2, 2, 1)
    )
    assert found == (7).to_bytes(8, "little") * 16
    numbers = [[int(n) for n in value] if isinstance(value, list) else int(value) for value in given]
    float16 = int(cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
    assert numbers[:5] == [float16, 4, 4096, [32, 8, 7, 2], [64, 512, 3584]]
    assert numbers[5:] == [[-1, -2], [-3, -4], 32, 64, [1, 2, 2, 1], 0, 2, 2, 0]
