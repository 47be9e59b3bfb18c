"""The language layer: kernels, programs, targets, outlines and the checks made before anything is lowered."""

from __future__ import annotations

from . import buffers as buffers
from . import errors as errors
from . import language as language
from . import rewrite as rewrite
from ._tilelang import tilelang as tilelang
from ._tilelang import tirx as tirx
from ._tilelang import tvm as tvm
from .annotations import typed as typed
from .build import translate_build_errors as translate_build_errors
from .capture import captured_state as captured_state
from .checks import check_program as check_program
from .dtypes import bits as bits
from .dtypes import dtype_name as dtype_name
from .errors import DslError as DslError
from .errors import TilewrightWarning as TilewrightWarning
from .hints import resolve_annotations as resolve_annotations
from .kernel import KernelFactory as KernelFactory
from .kernel import kernel as kernel
from .lint import lint_function as lint_function
from .operations import COPIES as COPIES
from .operations import GEMMS as GEMMS
from .operations import Gemm as Gemm
from .operations import Operation as Operation
from .operations import Region as Region
from .operations import gemm_of as gemm_of
from .operations import is_call as is_call
from .operations import operation_of as operation_of
from .outline import Outline as Outline
from .program import Program as Program
from .program import ScalarParam as ScalarParam
from .program import Source as Source
from .program import TensorParam as TensorParam
from .source import captured_values as captured_values
from .source import load_source as load_source
from .spans import keep_func_span as keep_func_span
from .spans import keep_span as keep_span
from .spans import place as place
from .spans import stamp as stamp
from .spans import stmt_span as stmt_span
from .target import Target as Target
from .tiles import OPEN_SCOPE as OPEN_SCOPE
from .tree import BufferInfo as BufferInfo
from .tree import Entry as Entry
from .tree import Grid as Grid
from .tree import Loop as Loop

__all__ = [
    "COPIES",
    "GEMMS",
    "OPEN_SCOPE",
    "BufferInfo",
    "DslError",
    "Entry",
    "Gemm",
    "Grid",
    "KernelFactory",
    "Loop",
    "Operation",
    "Outline",
    "Program",
    "Region",
    "ScalarParam",
    "Source",
    "Target",
    "TensorParam",
    "TilewrightWarning",
    "bits",
    "buffers",
    "captured_state",
    "captured_values",
    "check_program",
    "dtype_name",
    "errors",
    "gemm_of",
    "is_call",
    "keep_func_span",
    "keep_span",
    "kernel",
    "language",
    "lint_function",
    "load_source",
    "operation_of",
    "place",
    "resolve_annotations",
    "rewrite",
    "stamp",
    "stmt_span",
    "tilelang",
    "tirx",
    "translate_build_errors",
    "tvm",
    "typed",
]
