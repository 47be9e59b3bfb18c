"""Lowering: a program, a schedule and a target become an artifact with source, binaries, resources and launch plan."""

from __future__ import annotations

from .artifact import Artifact as Artifact
from .artifact import Resources as Resources
from .cache import artifact_key as artifact_key
from .cache import artifact_path as artifact_path
from .disassemble import disassemble as disassemble
from .expression import FUNCTIONS as FUNCTIONS
from .expression import Expression as Expression
from .expression import compile_function as compile_function
from .linemap import LineMap as LineMap
from .linemap import LineRecord as LineRecord
from .linemap import line_map as line_map
from .lower import counters as counters
from .lower import lower as lower
from .lower import lowered_source as lowered_source
from .options import Options as Options
from .plan import Argument as Argument
from .plan import KernelLaunch as KernelLaunch
from .plan import LaunchPlan as LaunchPlan
from .plan import Parameter as Parameter
from .plan import PointerArgument as PointerArgument
from .plan import PointerParameter as PointerParameter
from .plan import ScalarArgument as ScalarArgument
from .plan import ScalarParameter as ScalarParameter
from .plan import TensorArgument as TensorArgument
from .plan import TensorMapParameter as TensorMapParameter
from .plan import VariableSource as VariableSource
from .record import record_stages as record_stages
from .toolchain import Toolchain as Toolchain
from .toolchain import describe as describe_toolchain

__all__ = [
    "FUNCTIONS",
    "Argument",
    "Artifact",
    "Expression",
    "KernelLaunch",
    "LaunchPlan",
    "LineMap",
    "LineRecord",
    "Options",
    "Parameter",
    "PointerArgument",
    "PointerParameter",
    "Resources",
    "ScalarArgument",
    "ScalarParameter",
    "TensorArgument",
    "TensorMapParameter",
    "Toolchain",
    "VariableSource",
    "artifact_key",
    "artifact_path",
    "compile_function",
    "counters",
    "describe_toolchain",
    "disassemble",
    "line_map",
    "lower",
    "lowered_source",
    "record_stages",
]
