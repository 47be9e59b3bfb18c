"""Recipes for Ampere: schedules of whole operators, written with public primitives only."""

from __future__ import annotations

from .ampere_attention import attention
from .ampere_gemm import gemm, split_k, stream_k

__all__ = ["attention", "gemm", "split_k", "stream_k"]
