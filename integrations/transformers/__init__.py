"""Hugging Face transformers on our operators: attention by name, and norm, rope, MLP, loss and linear layers swapped.

>>> from tilewright.integrations.transformers import swap
>>> swapped = swap(model)        # a Llama- or Qwen-style model; swapped.undo() restores it
>>> print(swapped)
"""

from __future__ import annotations

from .attention import ATTENTION as ATTENTION
from .attention import register_attention as register_attention
from .errors import IntegrationError as IntegrationError
from .loss import causal_lm_loss as causal_lm_loss
from .swap import Swapped as Swapped
from .swap import swap as swap

__all__ = ["ATTENTION", "IntegrationError", "Swapped", "causal_lm_loss", "register_attention", "swap"]
