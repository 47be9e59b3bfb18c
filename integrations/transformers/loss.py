"""The loss of causal language models, on ``tw.ops.cross_entropy``."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import ops


def causal_lm_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    vocab_size: int,
    num_items_in_batch: torch.Tensor | int | None = None,
    ignore_index: int = -100,
    shift_labels: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    """What ``model.loss_function`` of transformers computes: tokens before n predict token n.

    Args:
        logits: (batch, length, vocab_size), any float type; computed in float32 without a float32 copy.
        labels: (batch, length) int64.
        vocab_size: columns of the logits.
        num_items_in_batch: divides the sum; default: the mean over labels that are not ``ignore_index``.
        ignore_index: labels that count nothing.
        shift_labels: (batch, length) labels that are shifted already.

    Returns:
        A float32 scalar.
    """
    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    reduction = "mean" if num_items_in_batch is None else "sum"
    target = shift_labels.reshape(-1).to(logits.device)
    loss: torch.Tensor = ops.cross_entropy(
        logits.reshape(-1, vocab_size), target, ignore_index=ignore_index, reduction=reduction
    )
    return loss if num_items_in_batch is None else loss / num_items_in_batch
