"""Attention beside torch in float64: grouped heads, windows, soft caps, sinks, lse and all gradients; hard inputs."""

import math
from functools import partial

import pytest
import torch
from attention_plain import operands, plain
from judging import TARGETS, assert_close, assert_nothing_found, kernels_added, outputs_and_gradients, tensor

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.ops import attention
from tilewright.ops.attention_launch import Scores, forward_values
from tilewright.ops.attention_programs import attention_forward
from tilewright.ops.kernels import kernel_of


def judge(inputs, target, **options):
    """Out, lse and all gradients: at most twice torch's error, or two roundings of the largest value."""
    exact, own = (outputs_and_gradients(partial(plain, **options), inputs, wide) for wide in (torch.float64, None))
    with tw.use(target=target):
        found = outputs_and_gradients(partial(called, options), inputs)
    for one, wide, theirs in zip(found[0] + found[1], exact[0] + exact[1], own[0] + own[1], strict=True):
        assert_close(one, wide, theirs)


def called(options, q, k, v, sink=None):
    return attention(q, k, v, sink=sink, return_lse=True, **options)


CASES = {
    "all keys": (operands(), {}),
    "causal, one query more than a tile": (operands(2, 65, 129, 2, 1), {"causal": True}),
    "window, cap and sink": (
        (*operands(queries=100), tensor(4, dtype=torch.float32, seed=3)),
        {"window": (20, 5), "softcap": 5.0},
    ),
    "one query, as in decoding": (operands(queries=1, keys=200), {"causal": True}),
    "one key": (operands(1, 1, 1, 1, 1), {"scale": -0.5}),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, target):
    inputs, options = CASES[case]
    judge(inputs, target, **options)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dims", [(32, 32), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256)])
def test_head_sizes(dims, target, dtype):
    judge(operands(1, 70, 90, 2, 1, *dims, dtype=dtype), target, causal=True)


@pytest.mark.parametrize("target", TARGETS)
def test_a_query_without_keys_gives_zeros(target):
    q, k, v = (x.requires_grad_() for x in operands(1, 130, 70, 2, 2))
    with tw.use(target=target):
        out, lse = attention(q, k, v, causal=True, return_lse=True)
        out.sum().backward()
    assert (out[:, :60] == 0).all()
    assert (lse[:, :, :60] == -math.inf).all()
    assert torch.isfinite(lse[:, :, 60:]).all()
    assert (q.grad[:, :60] == 0).all()
    short = tuple(x.detach().requires_grad_() for x in (q[:, 60:], k, v))
    with tw.use(target=target):
        alone = attention(*short, causal=True)
        alone.sum().backward()
    assert torch.equal(alone, out[:, 60:])
    assert (k.grad - short[1].grad).abs().max() <= 2**-9 * k.grad.abs().max()  # other tiles, another order of sums


def test_nothing_to_attend_to():
    q, k, v = operands(2, 3, 0)
    out, lse = attention(q, k, v, return_lse=True)
    assert out.shape == (2, 3, 4, 64)
    assert (out == 0).all()
    assert (lse == -math.inf).all()
    sink = torch.tensor([1.0, 2.0, 3.0, 4.0]).requires_grad_()
    out, lse = attention(q, k, v, sink=sink, return_lse=True)
    assert torch.equal(lse, sink[None, :, None].expand(2, 4, 3))
    lse.sum().backward()
    assert torch.equal(sink.grad, torch.full((4,), 6.0))
    for empty in (operands(0), operands(queries=0), operands(heads=0, heads_kv=1)):
        leaves = [x.requires_grad_() for x in empty]
        attention(*leaves).sum().backward()
        assert [x.grad.shape for x in leaves] == [x.shape for x in leaves]
        assert all((x.grad == 0).all() for x in leaves)


@pytest.mark.parametrize("target", TARGETS)
def test_strides_and_addresses(target):
    whole = tensor(2, 70, 3, 2, 64)
    q, k, v = whole.unbind(2)
    flat = torch.cat([torch.zeros(1, dtype=torch.float16), k.reshape(-1)])[1:].view(k.shape)  # 2 bytes off
    heads_first = v.transpose(1, 2).contiguous().transpose(1, 2)
    with tw.use(target=target):
        wanted = attention(q.contiguous(), k.contiguous(), v.contiguous())
        assert torch.equal(attention(q, k, v), wanted)
        assert torch.equal(attention(q, flat, heads_first), wanted)
        assert torch.equal(attention(q, k[:1].expand(2, -1, -1, -1), v)[0], wanted[0])


def test_special_values_stay_in_their_rows():
    q, k, v = operands(1, 70, 130, 2, 2)
    clean = attention(q, k, v)
    q[0, 3, 1, 5], q[0, 68, 0, 0] = math.nan, math.inf
    out = attention(q, k, v)
    bad = torch.zeros(70, 2, dtype=torch.bool)
    bad[3, 1] = bad[68, 0] = True
    assert out[0, bad].isnan().all()
    assert torch.equal(out[0, ~bad], clean[0, ~bad])
    huge = operands(1, 70, 130, 2, 2)
    huge[0].mul_(2000)  # scores of thousands: one weight is 1, all others underflow
    judge(huge, "sm_90a")


def test_a_window_is_what_its_pair_says():
    q, k, v = operands(1, 70, 70, 2, 2)
    assert torch.equal(attention(q, k, v, window=8), attention(q, k, v, window=(7, 7)))
    assert torch.equal(attention(q, k, v, window=8, causal=True), attention(q, k, v, window=(7, 0)))
    assert torch.equal(attention(q, k, v, causal=True), attention(q, k, v, window=(-1, 0)))


@pytest.mark.parametrize("target", TARGETS)
def test_no_fault_in_any_order(target):
    @torch.enable_grad()
    def step(q, k, v):
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        out = attention(q, k, v, causal=True)
        return (out, *torch.autograd.grad(out.float().square().sum(), (q, k, v)))

    report = tw.check(step, *operands(1, 65, 130, 2, 1), target=target)
    assert report.ok, str(report)


def test_a_few_kernels_serve_all_lengths():
    def calls():
        for length in range(1, 65):
            q, k, v = operands(1, length, 2 * length, 2, 1, 32)
            yield partial(attention, q, k, v, causal=True)

    assert kernels_added(calls()) <= 1


@pytest.mark.parametrize("target", TARGETS)
def test_the_code_uses_the_matrix_units_and_spills_nothing(target):
    q, _, v = operands()
    with tw.use(target=target):
        values = forward_values(q, v, False, Scores(0.125, 0.0, -1, -1), False, tw.Target(target))
        kernel = kernel_of(attention_forward, **values)
    assert ("wgmma.mma_async" in kernel.ptx) == (target == "sm_90a")
    assert ("cp.async.bulk.tensor" if target == "sm_90a" else "mma.sync") in kernel.ptx
    assert [(r.spill_stores, r.spill_loads) for r in kernel.resources] == [(0, 0)]


def test_autocast_takes_float32():
    q, k, v = (x.float() for x in operands(1, 9, 9, 1, 1))
    with torch.autocast("cpu", torch.bfloat16):
        out = attention(q, k, v)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, attention(q.bfloat16(), k.bfloat16(), v.bfloat16()))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"q": torch.float32}, {}, "attention: q has dtype float32.*convert q to one of float16, bfloat16"),
        ({"k": torch.bfloat16}, {}, r"attention: k is bfloat16, q is float16.*k\.to\(q\.dtype\)"),
        ({"q": (70, 4, 64)}, {}, r"are not \(batch, length, heads, size\)"),
        ({"k": (1, 131, 2, 64)}, {}, "do not fit together"),
        ({"v": (1, 130, 2, 96)}, {}, "no kernel has heads of 64 and values of 96 elements.*pad to one of"),
        ({"q": (1, 70, 3, 64)}, {}, "3 heads of q do not share 2 heads of k.*multiple"),
        ({}, {"window": 0}, "window = 0.*above 0"),
        ({}, {"window": (1, -2)}, r"window = \(1, -2\).*-1 for no bound"),
        ({}, {"window": True}, "window = True"),
        ({}, {"softcap": -1.0}, "softcap = -1.0.*positive"),
        ({}, {"softcap": math.nan}, "softcap = nan"),
        ({}, {"sink": torch.zeros(3)}, r"sink has shape \(3,\), q has 4 heads"),
        ({}, {"sink": torch.zeros(4, dtype=torch.int32)}, "sink has dtype int32"),
        ({"k": "meta"}, {}, "q is on cpu, k on meta"),
    ],
)
def test_refusals(change, options, message):
    given = dict(zip("qkv", operands(), strict=True))
    for name, wanted in change.items():
        shaped = isinstance(wanted, tuple)
        given[name] = torch.zeros(wanted, dtype=torch.float16) if shaped else given[name].to(wanted)
    with pytest.raises(TilewrightError, match=f"(?s){message}"):
        attention(given["q"], given["k"], given["v"], **options)


def test_one_query_head_reads_its_own_keys():
    q, k, v = operands(1, 5, 5, 4, 2)
    out = attention(q, k, v)
    for head in range(4):
        alone = attention(q[:, :, head : head + 1], k[:, :, head // 2 :][:, :, :1], v[:, :, head // 2 :][:, :, :1])
        assert torch.equal(out[:, :, head : head + 1], alone)


def test_nothing_is_found_in_a_forward_call():
    assert_nothing_found(attention, *operands(1, 70, 70, 2, 2))
