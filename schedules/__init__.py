"""The schedule language: steps that decide how a tile program runs, checked before lowering and proved after it."""

from __future__ import annotations

from .errors import ScheduleError as ScheduleError
from .errors import ScheduleNotApplied as ScheduleNotApplied
from .primitive import Primitive as Primitive
from .primitives import PRIMITIVES as PRIMITIVES
from .schedule import Schedule as Schedule

__all__ = ["PRIMITIVES", "Primitive", "Schedule", "ScheduleError", "ScheduleNotApplied"]
