"""Cross-entropy and token log-probabilities against torch: values, gradients, ignored rows, infinities, refusals."""

import pytest
import torch
from judging import assert_close, assert_matches, assert_nothing_found, kernels_added, tensor
from torch.nn import functional

import tilewright as tw
from tilewright.ops import cross_entropy, linear_cross_entropy, linear_token_logprobs, token_logprobs


def indices(*shape, below, seed=5):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def logprobs(logits, tokens, temperature=1.0):
    logs = torch.log_softmax(logits / temperature, -1)
    return logs.gather(-1, tokens[..., None])[..., 0], -(logs.exp() * logs).sum(-1)


def smoothed(logits, target, smoothing, z_loss):
    loss = functional.cross_entropy(logits, target, label_smoothing=smoothing, reduction="none")
    return loss + z_loss * logits.logsumexp(-1).square().masked_fill(target == -100, 0.0)


@pytest.mark.parametrize(
    ("shape", "dtype", "smoothing", "z_loss", "target"),
    [
        ((5, 5003), torch.float32, 0.1, 1e-3, "sm_90a"),
        ((5, 1000), torch.float16, 0.1, 1e-3, "sm_80"),
        ((9, 77), torch.bfloat16, 0.0, 0.0, "sm_80"),
    ],
)
def test_cross_entropy(shape, dtype, smoothing, z_loss, target):
    labels = indices(shape[0], below=shape[1])
    labels[1] = -100
    options = {"label_smoothing": smoothing, "z_loss": z_loss}
    rows = [3 * tensor(*shape, dtype=dtype)]
    assert_matches(
        lambda x: cross_entropy(x, labels, reduction="none", **options),
        lambda x: smoothed(x, labels, smoothing, z_loss),
        rows,
        target,
    )
    with tw.use(target=target):
        for reduction, divisor in (("sum", 1), ("mean", (labels != -100).sum())):
            found = cross_entropy(rows[0], labels, reduction=reduction, **options)
            exact = smoothed(rows[0].double(), labels, smoothing, z_loss).sum() / divisor
            assert abs(found - exact) <= 4e-6 * exact.abs()


@pytest.mark.parametrize(
    ("shape", "dtype", "temperature", "target"),
    [((2, 3, 5003), torch.float32, 1.0, "sm_90a"), ((5, 1000), torch.float16, 0.7, "sm_80")],
)
def test_token_logprobs(shape, dtype, temperature, target):
    tokens = indices(*shape[:-1], below=shape[-1])
    rows = [3 * tensor(*shape, dtype=dtype)]
    assert_matches(
        lambda x: token_logprobs(x, tokens, temperature), lambda x: logprobs(x, tokens, temperature), rows, target
    )


@pytest.mark.parametrize("chunk_rows", [0, 4])
def test_losses_of_hidden_states(chunk_rows):
    hidden, weight = tensor(2, 5, 32), tensor(96, 32, seed=1)
    target = indices(2, 5, below=96)
    target[0, 1] = -100
    assert_matches(
        lambda h, w: linear_cross_entropy(h, w, target, chunk_rows=chunk_rows),
        lambda h, w: functional.cross_entropy((h @ w.T).flatten(0, 1), target.flatten()),
        [hidden, weight],
        "sm_80",
    )
    tokens = indices(2, 5, below=96)
    assert_matches(
        lambda h, w: linear_token_logprobs(h, w, tokens, 2.0, chunk_rows),
        lambda h, w: logprobs(h @ w.T, tokens, 2.0),
        [hidden, weight],
        "sm_80",
    )


def test_whole_logits_never_exist(monkeypatch):
    from tilewright.ops import logits as module

    sizes = []
    own = module.gemm

    def counting(*args, **keywords):
        result = own(*args, **keywords)
        sizes.append(result.numel())
        return result

    monkeypatch.setattr(module, "gemm", counting)
    hidden, weight = tensor(40, 8).requires_grad_(), tensor(48, 8, seed=1).requires_grad_()
    linear_cross_entropy(hidden, weight, indices(40, below=48), chunk_rows=8).backward()
    assert max(sizes) == 8 * 48


def test_infinite_logits_and_ignored_rows():
    x = tensor(6, 96, dtype=torch.float32)
    target = indices(6, below=96)
    x[0, :90] = -torch.inf
    target[0], target[4] = 93, -100
    x[1], x[2, 5], x[3, 7], x[4, 3] = -torch.inf, torch.nan, torch.inf, torch.nan
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    found = cross_entropy(mine, target, reduction="none")
    expected = functional.cross_entropy(theirs, target, reduction="none")
    assert torch.allclose(found, expected, rtol=1e-6, equal_nan=True)
    found[[0, 4, 5]].sum().backward()
    expected[[0, 4, 5]].sum().backward()
    assert torch.allclose(mine.grad[[0, 5]], theirs.grad[[0, 5]], atol=1e-7)
    assert torch.equal(mine.grad[4], torch.zeros(96))
    masked = x[:1].clone().requires_grad_()
    entropy = token_logprobs(masked, target[:1])[1]
    kept = x[:1, 90:].double()
    assert torch.allclose(entropy.double(), torch.distributions.Categorical(logits=kept).entropy(), atol=1e-6)
    entropy.sum().backward()
    assert torch.equal(masked.grad[0, :90], torch.zeros(90))


def test_peaked_rows_keep_their_entropy():
    x = torch.zeros(2, 96)
    x[0, 3], x[1, 3] = 40.0, 1e4
    tokens = torch.tensor([3, 3])
    logs = torch.log_softmax(x.double(), -1)
    assert_close(token_logprobs(x, tokens)[1], -(logs.exp() * logs).sum(-1), -(logs.exp() * logs).sum(-1).float(), 0.1)


def test_targets_that_are_no_column_give_nan_and_none_gives_nan():
    x = tensor(3, 96, dtype=torch.float32)
    losses = cross_entropy(x, torch.tensor([96, -1, 5]), reduction="none")
    assert torch.equal(losses.isnan(), torch.tensor([True, True, False]))
    assert cross_entropy(x, torch.full((3,), -100)).isnan()
    assert cross_entropy(x[:0], torch.zeros(0, dtype=torch.int64), reduction="sum") == 0
    assert token_logprobs(x[:0], torch.zeros(0, dtype=torch.int64))[0].shape == (0,)
    one = cross_entropy(x[:1, :1], torch.zeros(1, dtype=torch.int32))
    assert one == 0


def test_nothing_is_found_in_any_order():
    x, tokens = tensor(3, 130), indices(3, below=130)
    gradient = torch.ops.tilewright.token_logprobs_backward
    assert_nothing_found(token_logprobs, x, tokens)
    ones = torch.ones(3)
    assert_nothing_found(lambda a, t: gradient(ones, ones, ones, ones * 5, a, t, 1.0), x, tokens)


def test_sizes_share_kernels():
    calls = [lambda m=m: cross_entropy(tensor(m, 1000), indices(m, below=1000)) for m in range(1, 65, 9)]
    assert kernels_added(calls) <= 1


X, Y = torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cross_entropy(X, Y[:2]), r"target has shape \(2,\), the rows of logits are \(3,\)"),
        (lambda: cross_entropy(X, Y.float()), "target has dtype float32"),
        (lambda: cross_entropy(X.double(), Y), "cross_entropy: logits has dtype float64"),
        (lambda: cross_entropy(X[:, :0], Y), "logits has no columns"),
        (lambda: cross_entropy(X, Y.to("meta")), "logits is on cpu, target on meta"),
        (lambda: cross_entropy(X, Y, label_smoothing=1.5), "label_smoothing = 1.5"),
        (lambda: cross_entropy(X, Y, z_loss=-1.0), "z_loss = -1.0"),
        (lambda: cross_entropy(X, Y, reduction="max"), "reduction = 'max'"),
        (lambda: token_logprobs(X, Y, 0.0), "temperature = 0.0"),
        (lambda: token_logprobs(X, Y[None]), r"tokens has shape \(1, 3\)"),
        (lambda: linear_cross_entropy(X, X.T, Y), r"weight is not \(N, K\) for hidden"),
        (lambda: linear_cross_entropy(X, X.half(), Y), "weight is float16, hidden is float32"),
        (lambda: linear_token_logprobs(X, X, Y, chunk_rows=-1), "chunk_rows = -1 is below zero"),
        (lambda: linear_token_logprobs(X, X, Y, -2.0), "linear_token_logprobs: temperature = -2.0"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(tw.errors.TilewrightError, match=message):
        call()
