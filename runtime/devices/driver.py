"""The CUDA driver through cuda-bindings (CUDA driver API 13.0), on the primary contexts and streams of torch."""

from __future__ import annotations

from typing import Any

import torch
from cuda.bindings import driver as cuda

from tilewright.lowering import TensorMapParameter

from ..errors import DriverError
from .cuda import LaunchShape

_INTEGER_TYPES = {
    "int8": "UINT8",
    "bool": "UINT8",
    "int16": "UINT16",
    "tfloat32": "TFLOAT32",
    "tf32": "TFLOAT32",
}

_MACHINE_ERRORS = ("CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_INVALID_PTX")
_WRONG_MACHINE = "compile for the target of this GPU, or pass CPU tensors to run on the virtual GPU"


class CudaDriver:
    """The driver of this machine. torch initialises it and owns the contexts."""

    def __init__(self) -> None:
        torch.cuda.current_device()  # initialises torch's CUDA
        self._stream = torch._C._cuda_getCurrentRawStream

    def load(self, image: bytes, device: int) -> Any:
        """A library from a cubin or PTX.

        Raises:
            DriverError: the image is for another architecture, or damaged.
        """
        with torch.cuda.device(device):
            _make_current(device)
            status, library = cuda.cuLibraryLoadData(image, [], [], 0, [], [], 0)
        _require(status, f"loading the kernel on cuda:{device}")
        return library

    def kernel(self, library: Any, name: str) -> Any:
        """A kernel's handle, valid in every context."""
        status, kernel = cuda.cuLibraryGetKernel(library, name.encode())
        _require(status, f"cuLibraryGetKernel({name})")
        return kernel

    def set_dynamic_shared(self, kernel: Any, device: int, size: int) -> None:
        """Raise a kernel's limit of dynamic shared memory on one device."""
        attribute = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        status, handle = cuda.cuDeviceGet(device)
        _require(status, "cuDeviceGet")
        (status,) = cuda.cuKernelSetAttribute(attribute, size, kernel, handle)
        _require(status, f"{size} bytes of dynamic shared memory")

    def encode(
        self,
        parameter: TensorMapParameter,
        pointer: int,
        dims: tuple[int, ...],
        strides: tuple[int, ...],
        box: tuple[int, ...],
        element_strides: tuple[int, ...],
    ) -> bytes:
        """A tensor map, as bytes."""
        steps = [cuda.cuuint32_t(step) for step in element_strides]
        status, encoded = (cuda.cuTensorMapEncodeIm2col if parameter.lower_corner else cuda.cuTensorMapEncodeTiled)(
            data_type(parameter.dtype),
            len(dims),
            pointer,
            [cuda.cuuint64_t(size) for size in dims],
            [cuda.cuuint64_t(stride) for stride in strides],
            *_tile(parameter, box, steps),
            cuda.CUtensorMapInterleave(parameter.interleave),
            cuda.CUtensorMapSwizzle(parameter.swizzle),
            cuda.CUtensorMapL2promotion(parameter.l2_promotion),
            cuda.CUtensorMapFloatOOBfill(parameter.oob_fill),
        )
        if status != cuda.CUresult.CUDA_SUCCESS:
            raise DriverError(
                f"{parameter.tensor}: the driver refuses its tensor map ({_name(status)})",
                values={"dims": dims, "strides": strides, "box": box, "address": hex(pointer)},
                remedy="TMA needs 16-byte addresses and pitches and boxes of at most 256 elements a side",
            )
        return b"".join(int(word).to_bytes(8, "little") for word in encoded.opaque)

    def launch(
        self,
        kernel: Any,
        shape: LaunchShape,
        device: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        parameters: int,
    ) -> None:
        """Launch on torch's current stream of the device."""
        if device != torch._C._cuda_getDevice():
            with torch.cuda.device(device):
                self.launch(kernel, shape, device, grid, block, dynamic_shared, parameters)
            return
        status = self._submit(kernel, shape, device, grid, block, dynamic_shared, parameters)
        if status == cuda.CUresult.CUDA_ERROR_INVALID_CONTEXT:  # the first launch of a thread, such as autograd's
            _make_current(device)
            status = self._submit(kernel, shape, device, grid, block, dynamic_shared, parameters)
        if status != cuda.CUresult.CUDA_SUCCESS:
            _require(status, f"launch of {shape.kernel} with grid {grid}, block {block}, {dynamic_shared} bytes shared")

    def _submit(
        self,
        kernel: Any,
        shape: LaunchShape,
        device: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        parameters: int,
    ) -> Any:
        stream = self._stream(device)
        if shape.cluster is None and not shape.cooperative and not shape.programmatic:
            (status,) = cuda.cuLaunchKernel(kernel, *grid, *block, dynamic_shared, stream, parameters, 0)
        else:
            config = launch_config(shape, grid, block, dynamic_shared, stream)
            (status,) = cuda.cuLaunchKernelEx(config, kernel, parameters, 0)
        return status


def _tile(parameter: TensorMapParameter, box: tuple[int, ...], steps: list[Any]) -> tuple[Any, ...]:
    """What the driver takes between the strides and the modes: of im2col mode plain numbers but for the steps."""
    if parameter.lower_corner:
        return list(parameter.lower_corner), list(parameter.upper_corner), *box, steps
    return [cuda.cuuint32_t(size) for size in box], steps


def _make_current(device: int) -> None:
    """Give this thread the device's primary context, as the CUDA runtime does at its first call in a thread."""
    status, context = cuda.cuCtxGetCurrent()
    _require(status, "cuCtxGetCurrent")
    if int(context):
        return
    status, handle = cuda.cuDeviceGet(device)
    _require(status, "cuDeviceGet")
    status, context = cuda.cuDevicePrimaryCtxRetain(handle)
    _require(status, "cuDevicePrimaryCtxRetain")
    (status,) = cuda.cuCtxSetCurrent(context)
    _require(status, "cuCtxSetCurrent")


def data_type(dtype: str) -> Any:
    """The driver's element type for a tensor map; 8-bit floats travel as bytes.

    Raises:
        DriverError: no tensor map holds this type.
    """
    name = "UINT8" if dtype.startswith("float8") else _INTEGER_TYPES.get(dtype, dtype.upper())
    found = getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name}", None)
    if found is None:
        raise DriverError(f"a tensor map cannot hold elements of type {dtype}", remedy="copy this tensor without TMA")
    return found


def launch_config(
    shape: LaunchShape, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_shared: int, stream: int
) -> Any:
    """The launch configuration with the attributes that ``shape`` asks for."""
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = dynamic_shared
    config.hStream = cuda.CUstream(stream)
    config.attrs = _attributes(shape)
    config.numAttrs = len(config.attrs)
    return config


def _attributes(shape: LaunchShape) -> list[Any]:
    attributes = []
    if shape.cluster is not None:
        cluster = cuda.CUlaunchAttribute()
        cluster.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        sides = cluster.value.clusterDim
        sides.x, sides.y, sides.z = shape.cluster
        attributes.append(cluster)
    if shape.cooperative:
        cooperative = cuda.CUlaunchAttribute()
        cooperative.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        cooperative.value.cooperative = 1
        attributes.append(cooperative)
    if shape.programmatic:
        serial = cuda.CUlaunchAttribute()
        serial.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        serial.value.programmaticStreamSerializationAllowed = 1
        attributes.append(serial)
    return attributes


def _require(status: Any, what: str) -> None:
    if status != cuda.CUresult.CUDA_SUCCESS:
        remedy = _WRONG_MACHINE if _name(status) in _MACHINE_ERRORS else ""
        raise DriverError(f"CUDA driver: {what} failed: {_name(status)}", remedy=remedy)


def _name(status: Any) -> str:
    return str(cuda.CUresult(status).name)
