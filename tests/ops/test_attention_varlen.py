"""Packed attention beside torch in float64, sequence by sequence; nothing of one sequence reaches another."""

import itertools
import math
from functools import partial

import pytest
import torch
from attention_plain import operands, plain
from judging import TARGETS, assert_matches, kernels_added, tensor

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.ops import attention, attention_varlen


def starts(lengths):
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)


def packed(queries, keys, heads=2, heads_kv=1, dim=64, dtype=torch.float16):
    """Operands of sequences with these lengths, and the four places."""
    made = operands(1, sum(queries), sum(keys), heads, heads_kv, dim, dtype=dtype)
    return [x[0] for x in made], (starts(queries), starts(keys), max(queries, default=0), max(keys, default=0))


def one_by_one(queries, keys, options, q, k, v, sink=None):
    parts = zip(q.split(queries), k.split(keys), v.split(keys), strict=True)
    results = [nothing(*part, sink) if not len(part[1]) else dense(part, sink, options) for part in parts]
    return torch.cat([out for out, _ in results]), torch.cat([lse for _, lse in results], 1)


def dense(part, sink, options):
    out, lse = plain(*(x[None] for x in part), sink, **options)
    return out[0], lse[0]


def nothing(q, k, v, sink):
    lse = q.new_full((q.shape[1], len(q)), -math.inf) if sink is None else sink[:, None].expand(-1, len(q))
    return q.new_zeros(len(q), q.shape[1], v.shape[2]) * q.sum(), lse.to(q.dtype) + 0 * q.sum()


@pytest.mark.parametrize("target", [pytest.param("sm_80", marks=pytest.mark.long), "sm_90a"])
def test_values_and_gradients_with_a_window_a_cap_and_a_sink(target):
    queries, keys, options = [30, 65], [129, 64], {"window": (20, 5), "softcap": 5.0}
    tensors, places = packed(queries, keys)
    ours = partial(packed_attention, places, options)
    sink = tensor(2, dtype=torch.float32, seed=3)
    assert_matches(ours, partial(one_by_one, queries, keys, options), (*tensors, sink), target)


def packed_attention(places, options, q, k, v, sink=None):
    return attention_varlen(q, k, v, *places, sink=sink, return_lse=True, **options)


@pytest.mark.parametrize("target", TARGETS)
def test_each_sequence_is_as_if_it_were_alone(target):
    """Empty ones too: queries without keys give zeros and -inf, keys without queries gradients of zero."""
    queries, keys = [70, 0, 1, 130], [70, 5, 0, 130]
    tensors, places = packed(queries, keys)
    leaves = [x.requires_grad_() for x in tensors]
    with tw.use(target=target):
        out, lse = attention_varlen(*leaves, *places, causal=True, return_lse=True)
        grads = torch.autograd.grad(out, leaves, tensor(*out.shape, seed=5))
    assert (out[70] == 0).all()
    assert (lse[:, 70] == -math.inf).all()
    assert (grads[1][70:75] == 0).all()
    for rows, columns in ((slice(0, 70), slice(0, 70)), (slice(71, 201), slice(75, 205))):
        alone = [
            x.detach()[None, part].requires_grad_() for x, part in zip(leaves, (rows, columns, columns), strict=True)
        ]
        with tw.use(target=target):
            wanted, wanted_lse = attention(*alone, causal=True, return_lse=True)
            gradients = torch.autograd.grad(wanted, alone, tensor(*out.shape, seed=5)[None, rows])
        assert torch.equal(out[rows], wanted[0])
        assert torch.equal(lse[:, rows], wanted_lse[0])
        for found, one, part in zip(grads, gradients, (rows, columns, columns), strict=True):
            assert (found[part] - one[0]).abs().max() <= 2**-9 * one.abs().max()


@pytest.mark.parametrize("target", TARGETS)
def test_nan_of_one_sequence_stays_in_it(target):
    queries, keys = [40, 20, 65], [70, 90, 133]
    tensors, places = packed(queries, keys)
    clean = results(target, tensors, places)
    for x, rows in zip(tensors, (slice(40, 60), slice(70, 160), slice(70, 160)), strict=True):
        x.data[rows] = math.nan
    poisoned = results(target, tensors, places)
    for found, wanted, lengths in zip(poisoned, clean, (queries, queries, keys, keys), strict=True):
        for i, (part, whole) in enumerate(zip(found.split(lengths), wanted.split(lengths), strict=True)):
            assert part.isnan().all() if i == 1 else torch.equal(part, whole)


def results(target, tensors, places):
    leaves = [x.detach().requires_grad_() for x in tensors]
    with tw.use(target=target):
        out = attention_varlen(*leaves, *places, causal=True)
        return out.detach(), *torch.autograd.grad(out, leaves, tensor(*out.shape, seed=5))


@pytest.mark.parametrize("target", TARGETS)
def test_no_fault_in_any_order(target):
    @torch.enable_grad()
    def step(q, k, v):
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = attention_varlen(*leaves, *places, causal=True)
        return (out, *torch.autograd.grad(out.float().square().sum(), leaves))

    tensors, places = packed([70, 1], [33, 130])
    report = tw.check(step, *tensors, target=target)
    assert report.ok, str(report)


def test_nothing_to_attend_to():
    for queries, keys in (([], []), ([0, 0], [3, 4]), ([3, 4], [0, 0])):
        tensors, places = packed(queries, keys)
        leaves = [x.requires_grad_() for x in tensors]
        out, lse = attention_varlen(*leaves, *places, return_lse=True)
        out.sum().backward()
        assert (out == 0).all()
        assert (lse == -math.inf).all()
        assert all((x.grad == 0).all() for x in leaves)


def test_a_few_kernels_serve_all_lengths():
    def calls():
        for length in range(1, 65):
            tensors, places = packed([length, 3], [length, 2 * length])
            yield partial(attention_varlen, *tensors, *places, causal=True)

    assert kernels_added(calls()) <= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.zeros(1, 5, 2, 64)}, r"attention_varlen: q has shape \(1, 5, 2, 64\), not \(rows, heads, size\)"),
        ({"k": torch.zeros(7, 1, 64)}, "attention_varlen: k has dtype float32"),
        ({"cu_seqlens_q": torch.tensor([0, 5])}, r"cu_seqlens_q has dtype int64.*to\(torch.int32\)"),
        ({"cu_seqlens_q": torch.zeros(0, dtype=torch.int32)}, r"cu_seqlens_q has shape \(0,\)"),
        ({"cu_seqlens_k": starts([3, 4])}, "1 sequences of q, 2 of k"),
        ({"cu_seqlens_q": starts([4])}, "does not go up from 0 to the 5 rows of q"),
        ({"cu_seqlens_k": starts([8])}, "does not go up from 0 to the 7 rows of k"),
        ({"max_seqlen_q": 4}, "max_seqlen_q = 4, but a sequence of q has 5 rows.*longest"),
        ({"window": 0}, "attention_varlen: window = 0"),
    ],
)
def test_refusals(change, message):
    (q, k, v), (starts_q, starts_k, longest_q, longest_k) = packed([5], [7])
    given = {"q": q, "k": k, "v": v, "cu_seqlens_q": starts_q, "cu_seqlens_k": starts_k}
    with pytest.raises(TilewrightError, match=f"(?s){message}"):
        attention_varlen(**{**given, "max_seqlen_q": longest_q, "max_seqlen_k": longest_k, **change})
