"""``swap(model)``: norms, rope, MLPs, loss, attention and linear layers of a transformers model on our operators."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from .attention import ATTENTION, register_attention
from .errors import IntegrationError
from .loss import causal_lm_loss
from .modules import gated_forward, is_rms_norm, linear_forward, norm_forward
from .rope import patch_rope


@dataclass(frozen=True)
class Swapped:
    """What was swapped in a model, by kind; ``undo`` restores the model."""

    counts: dict[str, int]
    restores: list[Callable[[], object]] = field(repr=False)

    def undo(self) -> None:
        """Restore what was swapped, once."""
        while self.restores:
            self.restores.pop()()

    def __str__(self) -> str:
        return ", ".join(f"{count} {kind}" for kind, count in self.counts.items()) or "nothing swapped"


def swap(
    model: nn.Module,
    *,
    attention: bool = True,
    norm: bool = True,
    rope: bool = True,
    mlp: bool = True,
    loss: bool = True,
    linear: bool = False,
) -> Swapped:
    """Let a Llama- or Qwen-style model of transformers run on our operators; weights stay as they are.

    A module is swapped only when it computes what the operator computes, else it stays (Gemma's norms, which add 1 to
    their weight). The rope function belongs to the model's family: swapping it serves all its models in this process.

    Args:
        model: a model of transformers.
        attention, norm, rope, mlp, loss: what to swap.
        linear: also run every ``nn.Linear`` on ``tw.ops.linear``.

    Raises:
        IntegrationError: a model whose attention or loss cannot be set, or nothing that was asked for was found.
    """
    counts: Counter[str] = Counter()
    restores: list[Callable[[], object]] = []
    for module in model.modules():
        found = _forward(module, norm=norm, mlp=mlp, linear=linear)
        if found is not None:
            kind, forward = found
            module.forward = types.MethodType(forward, module)
            restores.append(partial(delattr, module, "forward"))
            counts[kind] += 1
    if rope:
        restores.extend(patch_rope(model, counts))
    if attention:
        restores.append(_set_attention(model))
        counts["attention"] += 1
    if loss:
        restores.append(_set_loss(model))
        counts["loss"] += 1
    return Swapped(dict(counts), restores)


def _forward(module: nn.Module, *, norm: bool, mlp: bool, linear: bool) -> tuple[str, Any] | None:
    if norm and is_rms_norm(module):
        return "norm", norm_forward
    if linear and type(module) is nn.Linear:
        return "linear", linear_forward
    forward = gated_forward(module) if mlp else None
    return None if forward is None else ("mlp", forward)


def _set_attention(model: Any) -> Callable[[], object]:
    register_attention()
    if not callable(getattr(model, "set_attn_implementation", None)):
        raise IntegrationError(
            f"{type(model).__name__} cannot change its attention",
            remedy="pass a model of transformers, or attention=False",
        )
    before = model.config._attn_implementation
    model.set_attn_implementation(ATTENTION)
    return lambda: model.set_attn_implementation(before)


def _set_loss(model: Any) -> Callable[[], object]:
    if not isinstance(getattr(type(model), "loss_function", None), property):
        raise IntegrationError(
            f"{type(model).__name__} has no loss function to set", remedy="pass a ...ForCausalLM model, or loss=False"
        )
    before = vars(model).get("_loss_function")
    model.loss_function = causal_lm_loss
    return lambda: delattr(model, "_loss_function") if before is None else setattr(model, "_loss_function", before)
