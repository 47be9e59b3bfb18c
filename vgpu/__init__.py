"""The virtual GPU: runs PTX on the CPU and reports out-of-bounds accesses, races of synchronisation and deadlocks."""

from .errors import KernelFault as KernelFault
from .errors import LaunchError as LaunchError
from .errors import PtxSyntaxError as PtxSyntaxError
from .errors import TensorMapError as TensorMapError
from .errors import UnsupportedInstruction as UnsupportedInstruction
from .hot import HotLine as HotLine
from .launch import CHECKS as CHECKS
from .launch import MODES as MODES
from .launch import Launch as Launch
from .launch import launch as launch
from .launch import launch_many as launch_many
from .launch import parse as parse
from .ptx import Module as Module
from .ptx import SourceLine as SourceLine
from .report import Finding as Finding
from .report import Report as Report
from .report import Site as Site
from .tensor_map import TensorMap as TensorMap

__all__ = [
    "CHECKS",
    "MODES",
    "Finding",
    "HotLine",
    "KernelFault",
    "Launch",
    "LaunchError",
    "Module",
    "PtxSyntaxError",
    "Report",
    "Site",
    "SourceLine",
    "TensorMap",
    "TensorMapError",
    "UnsupportedInstruction",
    "launch",
    "launch_many",
    "parse",
]
