"""Callable kernels: argument checks, devices, the jit, torch operators, ambient target and schedule, counters."""

from __future__ import annotations

from . import errors as errors
from .alignment import pointer_alignment as pointer_alignment
from .check import CheckReport as CheckReport
from .check import check as check
from .context import current_schedule as current_schedule
from .context import current_target as current_target
from .context import recording as recording
from .context import stats as stats
from .context import use as use
from .devices import CudaDevice as CudaDevice
from .devices import Device as Device
from .devices import Driver as Driver
from .devices import NullDevice as NullDevice
from .devices import VgpuDevice as VgpuDevice
from .dtypes import short_name as short_name
from .errors import ArgumentError as ArgumentError
from .errors import GradientError as GradientError
from .errors import TracingError as TracingError
from .errors import VirtualGpuFault as VirtualGpuFault
from .jit import JitFunction as JitFunction
from .jit import jit as jit
from .kernel import Kernel as Kernel
from .kernel import compile as compile
from .operator import TorchOperator as TorchOperator
from .operator import register_operator as register_operator
from .profiler import Profiler as Profiler
from .ranks import run_ranks as run_ranks
from .signature import Signature as Signature

__all__ = [
    "ArgumentError",
    "CheckReport",
    "CudaDevice",
    "Device",
    "Driver",
    "GradientError",
    "JitFunction",
    "Kernel",
    "NullDevice",
    "Profiler",
    "Signature",
    "TorchOperator",
    "TracingError",
    "VgpuDevice",
    "VirtualGpuFault",
    "check",
    "compile",
    "current_schedule",
    "current_target",
    "errors",
    "jit",
    "pointer_alignment",
    "recording",
    "register_operator",
    "run_ranks",
    "short_name",
    "stats",
    "use",
]
