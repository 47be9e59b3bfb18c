"""Matmul as a torch operator: registration, fake tensors, compilation, and how few kernels it needs."""

import pytest
import torch
from gemm_cases import matrix

import tilewright as tw
from tilewright.ops import OPERATORS, gemm


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_opcheck(activation):
    a, b = matrix(16, 24).requires_grad_(), matrix(24, 8, seed=1).requires_grad_()
    bias = matrix(8, 1, dtype=torch.float32)[:, 0].clone().requires_grad_()
    torch.library.opcheck(torch.ops.tilewright.gemm.default, (a, b, bias, activation), {"out_dtype": torch.float32})


def test_it_is_the_torch_operator():
    a, b = matrix(16, 24), matrix(24, 8, seed=1)
    assert torch.equal(torch.ops.tilewright.gemm(a, b), gemm(a, b))


def test_fake_tensors_carry_shape_type_and_errors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        a, b = mode.from_tensor(matrix(3, 16, 24)), mode.from_tensor(matrix(24, 8))
        result = gemm(a, b, None, None, torch.float32)
        assert (result.shape, result.dtype) == ((3, 16, 8), torch.float32)
        with pytest.raises(tw.errors.TilewrightError, match="K = 24 columns but b has K = 16 rows"):
            gemm(a, b.mT.reshape(16, 12))


def test_torch_compile_keeps_it_one_node():
    nodes = []

    def backend(graph, inputs):
        nodes.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph

    a, b = matrix(16, 24), matrix(24, 8, seed=1)
    compiled = torch.compile(lambda x, y: gemm(x, y).relu(), backend=backend, fullgraph=True)
    assert torch.equal(compiled(a, b), gemm(a, b).relu())
    assert torch.ops.tilewright.gemm.default in nodes


def test_vmap_runs_over_a_batch():
    a, b = matrix(3, 16, 24), matrix(24, 8, seed=1)
    assert torch.equal(torch.vmap(gemm, in_dims=(0, None))(a, b), gemm(a, b))


def test_one_kernel_serves_all_sizes_of_a_class():
    with tw.use(target="sm_90a"):
        gemm(matrix(64, 64), matrix(64, 64))
        before = tw.stats()
        for m, n, k in ((72, 80, 88), (1, 8, 8), (200, 64, 16)):
            gemm(matrix(m, k), matrix(k, n))
        gemm(matrix(3, 24, 40), matrix(3, 40, 16))
        gemm(matrix(24, 120)[:, 8:48], matrix(40, 16))
        after = tw.stats()
    assert after["kernels"] == before["kernels"]
    assert after["launches"] - before["launches"] == 5


def test_one_call_after_another_gets_the_kernel_of_its_own_types_and_target():
    half, word = matrix(32, 32), matrix(32, 32, dtype=torch.bfloat16)
    for target in ("sm_80", "sm_90a", "sm_80"):
        with tw.use(target=target):
            assert gemm(half, half).dtype == torch.float16
            assert gemm(word, word).dtype == torch.bfloat16
            assert torch.equal(gemm(half, half.mT), gemm(half, half.mT.contiguous()))


@pytest.mark.parametrize("index", range(len(OPERATORS["gemm"].samples)))
def test_the_samples_of_the_record_pass(index):
    record = OPERATORS["gemm"]
    values = record.values(record.samples[index])
    args, keywords = record.inputs(values, torch.Generator().manual_seed(0))
    with tw.use(target=record.targets(values)[-1]):
        compared = record.compare(record.function(*args, **keywords), *args, **keywords)
    assert compared.ok, compared
