"""TileLang's lowering of one program for one target: host and device modules and the CUDA source."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dsl import Program, Target

from .diagnostics import captured, translated
from .errors import UnsupportedTarget
from .layouts import LayoutRecorder, TileLayout
from .options import Options

_LOWERED = ("sm_80", "sm_89", "sm_90a")
_OURS = {"tl.emit_line_directives": True}
_COMPILER_KEYS = ("tl.device_compile_flags",)  # for the CUDA compiler, not for the passes


@dataclass(frozen=True)
class Lowered:
    """What TileLang made of a program; ``remarks`` are its warnings, ``layouts`` those of its tiles."""

    host: Any
    device: Any
    cuda: str
    remarks: tuple[str, ...]
    layouts: tuple[TileLayout, ...] = ()


def lower_with_tilelang(program: Program, target: Target, options: Options, instruments: Sequence[Any] = ()) -> Lowered:
    """Run TileLang's passes and code generator. Threads take turns.

    Raises:
        LoweringError: TileLang refused the program.
        UnsupportedTarget: the target is not one that this version lowers to.
    """
    import tilelang
    from tvm.ir.transform import PassContext

    machine, recorder = tvm_target(target.name), LayoutRecorder()
    configs = {k: v for k, v in options.pass_configs if k not in _COMPILER_KEYS}
    context = PassContext(opt_level=3, config={**configs, **_OURS}, instruments=[*instruments, recorder])
    with captured() as noise, translated(program, "lowering"), machine, context:
        artifact = tilelang.lower(program.func, target=machine)
    cuda, remarks = str(artifact.kernel_source), tuple(noise.remarks)
    return Lowered(artifact.host_mod, artifact.device_mod, cuda, remarks, recorder.layouts)


@functools.cache
def tvm_target(name: str) -> Any:
    """TVM's target for one of our names.

    Raises:
        UnsupportedTarget: no CUDA code can be generated for it here.
    """
    from tvm.target import Target

    if name not in _LOWERED:
        raise UnsupportedTarget(
            f"target {name} cannot be lowered to by this version", remedy=f"use {', '.join(_LOWERED)}"
        )
    return Target({"kind": "cuda", "arch": name})
