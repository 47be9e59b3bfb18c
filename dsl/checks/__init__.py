"""Front-end checks of a program for a target, one concern a file; everything knowable before lowering."""

from __future__ import annotations

from collections.abc import Mapping

from ..program import Program
from ..target import Target
from ._context import launches
from .copies import check_copies
from .dtypes import check_buffer_dtypes, check_parameter_dtypes
from .fallback import warn_fallbacks
from .gemms import check_gemms
from .gemms import legal_triples as legal_triples
from .indices import check_indices
from .initialization import warn_uninitialized
from .launch import check_grid, check_threads
from .partition import check_partition
from .pipelines import check_pipelines
from .races import check_races
from .reductions import check_reductions
from .registers import check_registers
from .shared import check_shared

# in the order in which a reader would look: names, launch, shapes, dtypes and tiles, budgets, accesses
_ANY_TARGET = (check_buffer_dtypes, check_copies, check_pipelines, check_indices, check_races, warn_uninitialized)
_CUDA = (check_threads, check_grid, check_gemms, check_partition, check_reductions, check_shared, check_registers)


def check_program(program: Program, target: Target, pass_configs: Mapping[str, object] | None = None) -> None:
    """Run every check of a program for a target.

    Args:
        program: the program, before or after a schedule.
        target: ``ascend`` gets only the checks that hold on any machine.
        pass_configs: TileLang pass configuration it will be lowered with (``tl.disable_wgmma`` changes what is legal).

    Raises:
        DslError: the first thing found wrong, at its line.

    Warns:
        TilewrightWarning: what compiles but not as written: instruction fallbacks, dropped pipelines, reads before
            writes, register pressure.
    """
    check_parameter_dtypes(program)
    for launch in launches(program, target, pass_configs or {}):
        for check in (*_ANY_TARGET[:1], *(_CUDA if target.arch else ()), *_ANY_TARGET[1:]):
            check(launch)
        if target.arch:
            warn_fallbacks(launch)
