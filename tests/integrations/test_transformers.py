"""A randomly initialised Llama on our operators gives the loss and the gradients of pure torch."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import tilewright as tw
from tilewright.integrations.transformers import IntegrationError, swap


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=80,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def step(model: LlamaForCausalLM, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> tuple[torch.Tensor, dict]:
    model.zero_grad()
    labels = tokens if mask is None else tokens.masked_fill(mask == 0, -100)
    with tw.use(target="sm_90a"):
        loss = model(tokens, labels=labels, attention_mask=mask, use_cache=False).loss
        loss.backward()
    return loss.detach().double(), {name: p.grad.double() for name, p in model.named_parameters()}


@pytest.mark.parametrize("padded", [False, True])
def test_loss_and_gradients(padded: bool) -> None:
    """Both beside the same model in float64, at most twice as far off as torch in bfloat16."""
    tokens = torch.randint(80, (2, 24), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, 24, dtype=torch.int64) if padded else None
    if mask is not None:
        mask[1, 17:] = 0
    model = llama()
    own, wide = step(model, tokens, mask), step(llama().double(), tokens, mask)
    swapped = swap(model)
    assert swapped.counts == {"norm": 5, "mlp": 2, "rope": 1, "attention": 1, "loss": 1}
    ours = step(model, tokens, mask)
    assert (ours[0] - wide[0]).abs() <= 2 * (own[0] - wide[0]).abs() + 2**-8 * wide[0]
    for name, exact in wide[1].items():
        error, torch_error = ((found[1][name] - exact).norm() for found in (ours, own))
        assert error <= 2 * torch_error, name
    swapped.undo()
    again = step(model, tokens, mask)
    assert again[0] == own[0]
    assert all(torch.equal(again[1][name], grad) for name, grad in own[1].items())


def test_a_model_without_what_is_asked_for() -> None:
    with pytest.raises(IntegrationError, match=r"(?s)Linear cannot change its attention.*attention=False"):
        swap(torch.nn.Linear(2, 2))
