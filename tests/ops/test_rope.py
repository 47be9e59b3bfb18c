"""Rotary embedding against its definition: values, gradients, positions, tables, in place, layouts, and refusals."""

import pytest
import torch
from judging import TARGETS, assert_matches, assert_nothing_found, kernels_added, tensor

import tilewright as tw
from tilewright.ops import rope


def tables(rows, half):
    angles = torch.outer(torch.arange(rows).double(), 10000.0 ** (-torch.arange(half) / half))
    return angles.cos().float(), angles.sin().float()


def turned(x, cos, sin, interleaved):
    """Each pair as a complex number times exp(i angle), in the type of x."""
    half = cos.shape[-1]
    part = x[..., : 2 * half]
    a, b = (part[..., ::2], part[..., 1::2]) if interleaved else (part[..., :half], part[..., half:])
    c, s = cos.to(x.dtype).unsqueeze(-2), sin.to(x.dtype).unsqueeze(-2)
    pairs = torch.stack((a * c - b * s, a * s + b * c))
    both = pairs.movedim(0, -1).flatten(-2) if interleaved else pairs.movedim(0, -2).flatten(-2)
    return torch.cat((both, x[..., 2 * half :]), -1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("dtype", "head", "rotary", "interleaved"),
    [(torch.float16, 64, 64, False), (torch.bfloat16, 64, 48, True), (torch.float32, 10, 6, False)],
)
def test_values_and_gradients(dtype, head, rotary, interleaved, target):
    cos, sin = tables(7, rotary // 2)
    inputs = [tensor(2, 5, 3, head, dtype=dtype), tensor(2, 5, 1, head, dtype=dtype, seed=1)]
    assert_matches(
        lambda q, k: rope(q, k, cos, sin, interleaved=interleaved),
        lambda q, k: tuple(turned(x, cos[:5], sin[:5], interleaved) for x in (q, k)),
        inputs,
        target,
    )


def test_positions_and_tables_of_each_token_agree():
    q, k = tensor(2, 5, 3, 64), tensor(2, 5, 1, 64, seed=1)
    cos, sin = tables(9, 32)
    positions = torch.tensor([[0, 1, 2, 0, 8], [3, 3, 0, 1, 2]])
    found = rope(q, k, cos, sin, positions=positions)
    assert torch.allclose(found[0].double(), turned(q.double(), cos[positions], sin[positions], False), atol=2e-3)
    for other in (
        rope(q, k, cos[positions], sin[positions]),
        rope(q, k, cos, sin, positions=positions.int()),
    ):
        assert all(torch.equal(a, b) for a, b in zip(found, other, strict=True))
    one = rope(q, k, cos[:5][None], sin[:5][None])[1]
    assert torch.equal(one, rope(q, k, cos, sin, positions=torch.arange(5))[1])
    lost = rope(q, k, cos, sin, positions=torch.tensor([0, 9, -1, 3, 4]))[0]
    assert torch.equal(lost.isnan().flatten(2).any(-1)[0], torch.tensor([False, True, True, False, False]))


def test_in_place_and_strided_heads():
    packed = tensor(2, 5, 5, 64)
    cos, sin = tables(5, 16)
    q, k = packed[:, :, :3], packed[:, :, 4:]
    expected = rope(q.contiguous(), k.contiguous(), cos, sin)
    assert all(torch.equal(a, b) for a, b in zip(rope(q, k, cos, sin), expected, strict=True))
    flipped = q.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(rope(flipped, k, cos, sin)[0], expected[0])
    kept = packed[:, :, 3].clone()
    found = rope(q, k, cos, sin, inplace=True)
    assert found[0] is q
    assert torch.equal(q, expected[0])
    assert torch.equal(k, expected[1])
    assert torch.equal(packed[:, :, 3], kept)
    with pytest.raises(tw.errors.TilewrightError, match="q requires a gradient, and operator rope_ has no backward"):
        rope(q.clone().requires_grad_(), k, cos, sin, inplace=True)


def test_empty_and_single():
    cos, sin = tables(4, 32)
    assert rope(tensor(2, 0, 3, 64), tensor(2, 0, 1, 64), cos, sin)[0].shape == (2, 0, 3, 64)
    q = tensor(1, 1, 1, 64)
    assert torch.equal(rope(q, q[:, :, :0], cos, sin)[0], q)  # position 0 turns by no angle


def test_nothing_is_found_in_any_order():
    q, k = tensor(2, 3, 3, 64), tensor(2, 3, 1, 64, seed=1)
    cos, sin = tables(3, 16)
    assert_nothing_found(lambda a, b: rope(a, b, cos, sin), q, k)
    assert_nothing_found(lambda a, b: rope(a, b, cos, sin, inplace=True), q, k)


def test_sequence_lengths_share_kernels():
    cos, sin = tables(64, 32)
    calls = [lambda s=s: rope(tensor(1, s, 3, 64), tensor(1, s, 1, 64), cos, sin) for s in range(1, 65, 3)]
    assert kernels_added(calls) <= 3


Q, TABLE = torch.zeros(2, 3, 4, 8), torch.zeros(5, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rope(Q[0], Q, TABLE, TABLE), r"q and k are not \(B, S, H, D\)"),
        (lambda: rope(Q, Q[:1], TABLE, TABLE), r"q and k are not \(B, S, H, D\)"),
        (lambda: rope(Q, Q.half(), TABLE, TABLE), "k is float16, q is float32"),
        (lambda: rope(Q, Q, TABLE, TABLE[:3]), "sin does not have the shape of cos"),
        (lambda: rope(Q, Q, TABLE[:2], TABLE[:2]), "cos has 2 rows for 3 tokens"),
        (lambda: rope(Q, Q, torch.zeros(5, 8), torch.zeros(5, 8)), "no tables for heads of 8"),
        (lambda: rope(Q, Q, TABLE, TABLE, positions=torch.zeros(3)), "positions has dtype float32"),
        (lambda: rope(Q, Q, TABLE, TABLE, positions=torch.zeros(2, dtype=torch.int64)), r"positions has shape \(2,\)"),
        (lambda: rope(Q, Q, Q[:, :, 0, :4], Q[:, :, 0, :4], positions=torch.zeros(3, dtype=torch.int64)), "leave one"),
        (lambda: rope(Q, Q, Q[:, :2, 0, :4], Q[:, :2, 0, :4]), r"cos has shape \(2, 2, 4\), the tokens are \(2, 3\)"),
        (lambda: rope(Q.mT.contiguous().mT, Q, TABLE, TABLE, inplace=True), "q has inner stride 4, in place"),
        (lambda: rope(Q.clone().requires_grad_(), Q, TABLE.clone().requires_grad_(), TABLE), "cos or sin requires"),
        (lambda: rope(Q.to("meta"), Q, TABLE, TABLE), "q is on meta, k on cpu"),
        (lambda: rope(Q.double(), Q, TABLE, TABLE), "q has dtype float64"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(tw.errors.TilewrightError, match=message):
        call()
