"""How operands are read in memory: orientation, alignment, and batches folded into launches."""

import pytest
import torch
from gemm_cases import matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.ops.gemm_views import folded, load_width, operand_of


def test_a_row_major_matrix_is_read_as_it_is():
    operand = operand_of(matrix(1, 24, 32))
    assert (operand.transposed, operand.pitch, operand.align, operand.width) == (False, 32, 16, 16)


def test_a_transposed_matrix_is_read_along_its_columns():
    operand = operand_of(matrix(1, 24, 32).mT)
    assert operand.transposed
    assert operand.tensor.shape == (1, 24, 32)


@pytest.mark.parametrize(
    ("view", "align", "width"),
    [
        (matrix(1, 8, 40)[:, :, :32], 16, 16),
        (matrix(1, 8, 40)[:, :, :36], 16, 8),
        (matrix(1, 8, 40)[:, :, 4:36], 8, 8),
        (matrix(1, 8, 42)[:, :, :32], 4, 4),
        (matrix(1, 8, 41)[:, :, :32], 2, 2),
        (matrix(1, 8, 41)[:, :1, :32], 16, 16),  # the pitch of one row does not matter
        (matrix(1, 8, 40)[:, :, 1:33], 2, 2),
        (matrix(3, 8, 40)[:, :7, :40], 16, 16),
    ],
)
def test_alignment_is_that_of_every_row(view, align, width):
    operand = operand_of(view)
    assert (operand.align, operand.width) == (align, width)


def test_the_width_of_a_load_is_the_narrower_operands():
    wide, narrow = operand_of(matrix(1, 8, 32)), operand_of(matrix(1, 8, 42)[:, :, :32])
    assert load_width((wide, narrow)) == 4
    odd = operand_of(matrix(1, 8, 41)[:, :, :32])
    assert load_width((wide, odd)) == 2


def test_a_view_without_unit_stride_is_copied():
    view = matrix(1, 8, 64)[:, :, ::2]
    operand = operand_of(view)
    assert operand.tensor.data_ptr() != view.data_ptr()
    assert torch.equal(operand.tensor, view)


def launches(a, b):
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if b.dim() > 2 else a.shape[:-2]
    c = torch.zeros(*batch, a.shape[-2], b.shape[-1], dtype=torch.float64)
    parts = list(folded(a, b, c))
    for left, right, out in parts:
        out.copy_(left @ right)
    return c, parts


@pytest.mark.parametrize(
    ("a", "b", "count", "batch"),
    [
        ((5, 4), (4, 3), 1, 1),
        ((2, 5, 4), (4, 3), 1, 1),
        ((2, 6, 5, 4), (4, 3), 1, 1),
        ((2, 5, 4), (2, 4, 3), 1, 2),
        ((2, 6, 5, 4), (2, 6, 4, 3), 1, 12),
        ((5, 4), (2, 4, 3), 1, 2),
        ((2, 1, 5, 4), (6, 4, 3), 2, 6),
        ((2, 6, 5, 4), (6, 4, 3), 2, 6),
    ],
)
def test_contiguous_batches_need_few_launches(a, b, count, batch):
    left, right = matrix(*a, dtype=torch.float64), matrix(*b, dtype=torch.float64, seed=1)
    c, parts = launches(left, right)
    assert torch.allclose(c, left @ right)
    assert len(parts) == count
    assert parts[0][2].shape[0] == batch


dims = st.lists(st.integers(1, 3), min_size=0, max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    batch=dims, mask_a=st.integers(0, 7), mask_b=st.integers(0, 7), order=st.permutations(range(3)), rank=st.booleans()
)
def test_folding_computes_every_product_of_any_strides(batch, mask_a, mask_b, order, rank):
    def operand(rows, columns, mask, seed):
        shape = [1 if mask >> i & 1 else size for i, size in enumerate(batch)]
        axes = [axis for axis in order if axis < len(batch)]
        stored = matrix(*(shape[axis] for axis in axes), rows, columns, dtype=torch.float64, seed=seed)
        back = [axes.index(axis) for axis in range(len(batch))]
        return stored.permute(*back, len(batch), len(batch) + 1)

    a, b = operand(4, 5, mask_a, 0), operand(5, 3, mask_b, 1)
    b = b.reshape(-1, 5, 3)[0] if rank else b
    c, _ = launches(a, b)
    assert torch.allclose(c, a @ b)
