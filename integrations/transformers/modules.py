"""Forward functions that replace those of a model's norms, gated MLPs and linear layers, and what they fit."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from tilewright import ops

_EPSILONS = ("variance_epsilon", "eps")
_GELU = {"GELUActivation": "none", "GELU": "none", "GELUTanh": "tanh", "NewGELUActivation": "tanh"}
_SILU = ("SiLUActivation", "SiLU")


def norm_forward(module: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """RMS norm of (..., N) with the module's weight and epsilon."""
    return cast(torch.Tensor, ops.rms_norm(hidden_states, module.weight, vars(module)[_epsilon_name(module)]))


def swiglu_forward(module: Any, x: torch.Tensor) -> torch.Tensor:
    """down(silu(gate(x)) * up(x))."""
    result: torch.Tensor = module.down_proj(ops.swiglu(module.gate_proj(x), module.up_proj(x)))
    return result


def geglu_forward(module: Any, x: torch.Tensor) -> torch.Tensor:
    """down(gelu(gate(x)) * up(x))."""
    gated = ops.geglu(module.gate_proj(x), module.up_proj(x), approximate=_GELU[type(module.act_fn).__name__])
    result: torch.Tensor = module.down_proj(gated)
    return result


def linear_forward(module: Any, input: torch.Tensor) -> torch.Tensor:
    """x @ weight.T + bias."""
    result: torch.Tensor = ops.linear(input, module.weight, module.bias)
    return result


def _epsilon_name(module: Any) -> str:
    """Under which of the usual names a norm has its epsilon; empty for none."""
    return next((name for name in _EPSILONS if name in vars(module)), "")


def is_rms_norm(module: nn.Module) -> bool:
    """Whether a module computes x / sqrt(mean(x^2) + eps) * weight: tried on a few numbers, for Gemma adds 1 to it."""
    weight, name = module._parameters.get("weight"), _epsilon_name(module)
    if "RMSNorm" not in type(module).__name__ or weight is None or weight.dim() != 1 or not name:
        return False
    if weight.device.type == "meta":
        return False
    x = torch.linspace(-2, 3, 2 * weight.numel(), device=weight.device).view(2, -1).to(weight.dtype)
    with torch.no_grad():
        ours = nn.functional.rms_norm(x.double(), weight.shape, weight.double(), vars(module)[name])
        return torch.allclose(module(x).double(), ours, rtol=2e-2, atol=2e-2)


def gated_forward(module: nn.Module) -> Any:
    """The forward that fits a gated MLP (``gate_proj``, ``up_proj``, ``down_proj``, ``act_fn``), None for others."""
    parts = module._modules
    if not {"gate_proj", "up_proj", "down_proj", "act_fn"} <= parts.keys() or len(parts) != 4:
        return None
    activation = type(parts["act_fn"]).__name__
    if activation in _SILU:
        return swiglu_forward
    return geglu_forward if activation in _GELU else None
