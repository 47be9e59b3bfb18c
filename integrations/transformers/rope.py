"""The rotary embedding of a model's family, on ``tw.ops.rope``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

from tilewright import ops

_NAME = "apply_rotary_pos_emb"


def rotate(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """What ``apply_rotary_pos_emb`` of Llama-style models computes, in float32.

    Args:
        q: (B, H, S, D) with ``unsqueeze_dim`` 1, (B, S, H, D) with 2.
        k: the same with its own number of heads.
        cos: (B, S, R) or (1, S, R), whose second half repeats the first.
        sin: the same.
        unsqueeze_dim: where the heads are.
    """
    half = cos.shape[-1] // 2
    tables = (table[0, :, :half] if table.shape[0] == 1 else table[..., :half] for table in (cos, sin))
    if unsqueeze_dim == 1:
        turned = ops.rope(q.transpose(1, 2), k.transpose(1, 2), *tables)
        return turned[0].transpose(1, 2), turned[1].transpose(1, 2)
    return ops.rope(q, k, *tables)


def patch_rope(model: nn.Module, counts: Counter[str]) -> list[Callable[[], object]]:
    """Swap the function in the modules that define the model's attention; how to restore each."""
    restores: list[Callable[[], object]] = []
    for module in _modules(model):
        original = vars(module)[_NAME]
        if original is rotate:
            counts["rope"] += 1
        elif _turns_halves(original):
            vars(module)[_NAME] = rotate
            restores.append(lambda module=module, original=original: setattr(module, _NAME, original))  # type: ignore[misc]
            counts["rope"] += 1
    return restores


def _modules(model: nn.Module) -> list[ModuleType]:
    names = {type(part).__module__ for part in model.modules() if type(part).__name__.endswith("Attention")}
    return [sys.modules[name] for name in sorted(names) if callable(vars(sys.modules[name]).get(_NAME))]


def _turns_halves(function: Callable[..., Any]) -> bool:
    """Whether a function turns element i of a head with element i + D / 2: tried on a few numbers."""
    q, k = torch.linspace(-1, 2, 24).view(1, 2, 3, 4), torch.linspace(3, -1, 12).view(1, 1, 3, 4)
    angles = torch.linspace(0, 2, 6).view(1, 3, 2).repeat(1, 1, 2)
    try:
        found = function(q, k, angles.cos(), angles.sin())
    except (TypeError, RuntimeError):
        return False
    wanted = (
        x * angles.cos()[:, None] + torch.cat((-x[..., 2:], x[..., :2]), -1) * angles.sin()[:, None] for x in (q, k)
    )
    return all(torch.allclose(ours, theirs, atol=1e-6) for ours, theirs in zip(wanted, found, strict=False))
