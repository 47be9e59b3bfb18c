"""TMA in im2col mode: columns of pixels against the list of all pixels of the bounding boxes, in order."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.vgpu import TensorMap, launch
from tilewright.vgpu.errors import TensorMapError, UnsupportedInstruction

CHANNELS = 8  # of a pixel: 16 bytes


def kernel(rank, core, parameters=""):
    coordinates = "".join(f", .param .s32 pc{d}" for d in range(rank))
    offsets = "".join(f", .param .u16 po{d}" for d in range(rank - 2))
    loads = "\n".join(f"ld.param.s32 %c{d}, [pc{d}];" for d in range(rank))
    loads += "\n".join(f"ld.param.u16 %h{d}, [po{d}];" for d in range(rank - 2))
    return f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 pmap[128], .param .u64 pbuf, .param .u32 pn{coordinates}{offsets})
{{
.shared .align 1024 .b8 tile[16384];
.shared .align 8 .b8 bar[8];
.reg .b32 %r<8>, %t, %tile, %bar, %c<6>, %n, %x;
.reg .b16 %h<4>;
.reg .b64 %map, %buf, %o;
.reg .pred %p<4>;
mov.u32 %t, %tid.x;
mov.u32 %tile, tile;
mov.u32 %bar, bar;
setp.eq.u32 %p0, %t, 0;
@%p0 mbarrier.init.shared::cta.b64 [%bar], 1;
bar.sync 0;
mov.b64 %map, pmap;
cvta.param.u64 %map, %map;
ld.param.u64 %buf, [pbuf];
ld.param.u32 %n, [pn];
{loads}
shl.b32 %x, %t, 4;
setp.ge.u32 %p2, %x, %n;
cvt.u64.u32 %o, %x;
add.s64 %o, %o, %buf;
add.u32 %x, %x, %tile;
{core}
ret;
}}"""


def place(rank, offsets):
    coordinates = ", ".join(f"%c{d}" for d in range(rank))
    return f"[%map, {{{coordinates}}}]", f"{{{', '.join(f'%h{d}' for d in range(offsets))}}}"


def load(rank, mode=".im2col", offsets=None):
    at, moved = place(rank, rank - 2 if offsets is None else offsets)
    opcode = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes"
    tail = f", {moved}" if mode else ""
    return kernel(
        rank,
        f"""@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %n;
@%p0 {opcode} [%tile], {at}, [%bar]{tail};
W:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;
@!%p1 bra W;
@%p2 ret;
ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%x];
st.global.v4.b32 [%o], {{%r0, %r1, %r2, %r3}};""",
    )


def store(rank):
    return kernel(
        rank,
        f"""@%p2 bra F;
ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%o];
st.shared.v4.b32 [%x], {{%r0, %r1, %r2, %r3}};
F:
fence.proxy.async.shared::cta;
bar.sync 0;
@%p0 cp.async.bulk.tensor.{rank}d.global.shared::cta.im2col_no_offs.bulk_group {place(rank, 0)[0]}, [%tile];
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group 0;""",
    )


def tensor_map(sizes, channels, lower, upper, pixels, steps, **options):
    """A map over images of int16 ``(images, *sizes, channels)``, all distinct, and the images."""
    shape = (*reversed(sizes), channels)
    images = np.arange(1, 1 + np.prod(shape), dtype=np.int16).reshape(shape)
    strides = [int(s) for s in reversed(images.strides[:-1])]
    tensor = torch.from_numpy(images)
    dims = [channels, *sizes]
    box, steps = (CHANNELS, pixels), (1, *steps, 1)
    found = TensorMap(tensor, "uint16", dims, strides, box, steps, lower_corner=lower, upper_corner=upper, **options)
    return images, found


def walk(sizes, lower, upper, steps):
    """The places of all pixels of all images, as (dimension 1, ..., image), dimension 1 fastest."""
    sides = [range(a, n + b, s) for n, a, b, s in zip(sizes[:-1], lower, upper, steps, strict=True)]
    return [tuple(reversed(p)) for p in itertools.product(range(sizes[-1]), *reversed(sides))]


@st.composite
def columns(draw):
    spatial = draw(st.integers(1, 3))
    sizes = [draw(st.integers(2, 6)) for _ in range(spatial)] + [draw(st.integers(1, 3))]
    lower = [draw(st.integers(-2, 1)) for _ in range(spatial)]
    upper = [draw(st.integers(-n + 1 + max(a, 0), 1)) for n, a in zip(sizes[:-1], lower, strict=True)]
    steps = [draw(st.integers(1, 3)) for _ in range(spatial)]
    offsets = [draw(st.integers(0, 3)) for _ in range(spatial)]
    everywhere = walk(sizes, lower, upper, steps)
    start = draw(st.integers(0, len(everywhere) - 1))
    pixels = draw(st.integers(1, min(64, len(everywhere) - start)))
    return sizes, lower, upper, steps, offsets, everywhere[start : start + pixels], draw(st.sampled_from([0, 8, -3]))


@settings(max_examples=60, deadline=None)
@given(columns(), st.sampled_from(["eager", "lazy"]))
def test_a_column_of_pixels(case, mode):
    sizes, lower, upper, steps, offsets, pixels, channel = case
    images, found = tensor_map(sizes, 16, lower, upper, len(pixels), steps)
    padded = np.pad(images, [(0, 0)] + [(2, 9)] * len(offsets) + [(3, 9)])
    expected = []
    for *at, image in pixels:
        moved = [p + o + 2 for p, o in zip(at, offsets, strict=True)]
        expected.append(padded[(image, *reversed(moved))][channel + 3 : channel + 3 + CHANNELS])
    out = torch.zeros(len(pixels) * CHANNELS, dtype=torch.int16)
    args = [found, out, out.numel() * 2, channel, *pixels[0], *offsets]
    rank = len(sizes) + 1
    launch(load(rank), "k", 1, 64, args, target="sm_90a", mode=mode).raise_for_findings()
    np.testing.assert_array_equal(out.numpy(), np.concatenate(expected))


def test_a_column_behind_the_last_image_is_zero():
    _, found = tensor_map([3, 2], 8, [0], [0], 4, [1])
    out = torch.ones(4 * CHANNELS, dtype=torch.int16)
    launch(load(3), "k", 1, 64, [found, out, 64, 0, 1, 1, 0], target="sm_90a").raise_for_findings()
    assert out.view(4, CHANNELS)[:, 0].tolist() == [33, 41, 0, 0]


def test_a_store_goes_where_a_load_reads():
    images, found = tensor_map([3, 2], 8, [0], [-1], 3, [1])
    values = torch.arange(1001, 1001 + 3 * CHANNELS, dtype=torch.int16)
    launch(store(3), "k", 1, 64, [found, values, 48, 0, 1, 0, 0], target="sm_90a").raise_for_findings()
    expected = np.arange(1, 49, dtype=np.int16).reshape(2, 3, 8)
    expected[0, 1], expected[1, 0], expected[1, 1] = values.numpy().reshape(3, 8)
    np.testing.assert_array_equal(images, expected)


def test_modes_of_instruction_and_map_must_agree():
    _, found = tensor_map([3, 2], 8, [0], [0], 4, [1])
    out = torch.zeros(64, dtype=torch.int16)
    report = launch(load(3, mode=""), "k", 1, 64, [found, out, 64, 0, 0, 0, 0], target="sm_90a")
    assert report.findings[0].message.startswith("a tile of a tensor map made for im2col")
    tiled = TensorMap(torch.zeros(2, 3, 8, dtype=torch.int16), "uint16", [8, 3, 2], [16, 48], [8, 2, 2], [1, 1, 1])
    report = launch(load(3), "k", 1, 64, [tiled, out, 64, 0, 0, 0, 0], target="sm_90a")
    assert report.findings[0].message.startswith("im2col with a tensor map made for tiles")


def test_two_dimensions_have_no_pixels():
    with pytest.raises(UnsupportedInstruction, match=r"has \.im2col, which takes 3 to 5 dimensions"):
        launch(load(2, offsets=1), "k", 1, 64, [], target="sm_90a")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower": [0, 0]}, r"lower_corner has 2 entries for 3 dimensions"),
        ({"lower": [-40000]}, r"lower_corner must be -32768 to 32767 each for 3 dimensions"),
        ({"upper": [-3]}, r"the corners leave no pixel"),
        ({"pixels": 1025}, r"box must be 1 to 256 channels and 1 to 1024 pixels"),
        ({"sizes": [3], "lower": [], "upper": [], "steps": []}, r"an im2col tensor map has 3 to 5 dimensions"),
    ],
)
def test_rules_of_maps(changes, message):
    given = {"sizes": [3, 2], "channels": 8, "lower": [0], "upper": [0], "pixels": 4, "steps": [1]} | changes
    with pytest.raises(TensorMapError, match=message):
        tensor_map(**given)
