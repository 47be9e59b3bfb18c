"""The devices that a kernel runs on: the CUDA driver, the virtual GPU, and one that checks and packs only."""

from __future__ import annotations

from .cuda import CudaDevice as CudaDevice
from .cuda import Driver as Driver
from .null import NullDevice as NullDevice
from .protocol import Device as Device
from .vgpu import VgpuDevice as VgpuDevice

__all__ = ["CudaDevice", "Device", "Driver", "NullDevice", "VgpuDevice"]
