"""Recipes for Hopper: schedules of whole operators, written with public primitives only."""

from __future__ import annotations

from .hopper_attention import attention
from .hopper_gemm import gemm, split_k, stream_k

__all__ = ["attention", "gemm", "split_k", "stream_k"]
