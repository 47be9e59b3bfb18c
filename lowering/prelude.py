"""The text in front of every CUDA source: TileLang's NVRTC shims, all of its headers for the target, and two names.

The headers are the same for all kernels of a target, so one precompiled header serves them all.
"""

from __future__ import annotations

from tilewright.dsl import Target

_COMMON = (
    "instruction/mma.h",
    "intrin.h",
    "atomic.h",
    "math.h",
    "copy.h",
    "reduce.h",
    "scan.h",
    "ldsm.h",
    "threadblock_swizzle.h",
    "debug.h",
)
_FP8 = ("cuda_fp8.h",)
_HOPPER = ("instruction/wgmma.h", "barrier.h", "copy_sm90.h", "cluster.h")
_NAMES = """\
#include <math_constants.h>
#ifndef uint
using uint = unsigned int;
#endif
"""
# its constants would become some 800 unused symbols of every module
_LIMITS = """\
#include <cuda/std/limits>
namespace std {
using ::cuda::std::numeric_limits;
}
"""


def prelude(target: Target) -> str:
    """The prelude for a target; it ends where precompilation stops."""
    headers = _COMMON + (_FP8 if target.arch >= 89 else ()) + (_HOPPER if target.arch == 90 else ())
    includes = "".join(f"#include <tl_templates/cuda/{header}>\n" for header in headers)
    return f"#include <tl_templates/cuda/nvrtc_std.h>\n{includes}{_NAMES}#pragma nv_hdrstop\n"


def addition(cuda: str) -> str:
    """What goes between the prelude and a source that uses ``std::numeric_limits``; empty for others."""
    return _LIMITS if "numeric_limits" in cuda else ""
