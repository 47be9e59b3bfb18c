"""TMA tiles of 1 to 5 dimensions, plain bulk copies and reductions, against index arithmetic in numpy."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.vgpu import TensorMap, launch
from tilewright.vgpu.errors import TensorMapError, UnsupportedInstruction

SHARED = 32768
DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def prologue(params):
    """%tile: 1024-aligned shared memory; %bar: an mbarrier of count 1; %p0: thread 0; %buf: global bytes."""
    return f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k({params})
{{
.shared .align 1024 .b8 tile[{SHARED}];
.shared .align 8 .b8 bar[8];
.reg .b32 %r<8>, %t, %tile, %bar, %c<6>, %n, %at, %i, %x;
.reg .b64 %map, %buf, %o;
.reg .pred %p<4>;
mov.u32 %t, %tid.x;
mov.u32 %tile, tile;
mov.u32 %bar, bar;
setp.eq.u32 %p0, %t, 0;
@%p0 mbarrier.init.shared::cta.b64 [%bar], 1;
bar.sync 0;
"""


WAIT = """W:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;
@!%p1 bra W;"""


def loop(body):
    """Runs `body` for 16-byte units %i of %n bytes, one thread a unit; %x = %tile + 16 i, %o = %buf + 16 i."""
    return f"""mov.u32 %i, %t;
LOOP:
shl.b32 %x, %i, 4;
setp.ge.u32 %p2, %x, %n;
@%p2 bra DONE;
cvt.u64.u32 %o, %x;
add.s64 %o, %o, %buf;
add.u32 %x, %x, %tile;
{body}
add.u32 %i, %i, 128;
bra LOOP;
DONE:"""


READ_ALL = loop("ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%x];\nst.global.v4.b32 [%o], {%r0, %r1, %r2, %r3};")
FILL_ALL = loop("ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%o];\nst.shared.v4.b32 [%x], {%r0, %r1, %r2, %r3};")


def tensor_kernel(rank, core):
    params = ".param .align 64 .b8 pmap[128], .param .u64 pbuf, .param .u32 pn, .param .u32 pat"
    coordinates = "".join(f", .param .s32 pc{d}" for d in range(rank))
    loads = "\n".join(f"ld.param.s32 %c{d}, [pc{d}];" for d in range(rank))
    return f"""{prologue(params + coordinates)}
mov.b64 %map, pmap;
cvta.param.u64 %map, %map;
ld.param.u64 %buf, [pbuf];
ld.param.u32 %n, [pn];
ld.param.u32 %at, [pat];
add.u32 %tile, %tile, %at;
{loads}
{core}
ret;
}}"""


def load_core(rank, modifiers="", bytes_expected="%n"):
    coordinates = ", ".join(f"%c{d}" for d in range(rank))
    load = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global{modifiers}.mbarrier::complete_tx::bytes"
    return f"""@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {bytes_expected};
@%p0 {load} [%tile], [%map, {{{coordinates}}}], [%bar];
{WAIT}
{READ_ALL}"""


def store_core(
    rank,
    opcode="cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group",
    fence="fence.proxy.async.shared::cta;",
    wait=None,
):
    coordinates = ", ".join(f"%c{d}" for d in range(rank))
    wait = "@%p0 cp.async.bulk.commit_group;\n@%p0 cp.async.bulk.wait_group 0;" if wait is None else wait
    return f"""{FILL_ALL}
{fence}
bar.sync 0;
@%p0 {opcode.format(rank=rank)} [%map, {{{coordinates}}}], [%tile];
{wait}"""


def swizzled(offset, mode):
    """CUTLASS writes it Swizzle<mode, 4, 3>: XOR of the 16-byte unit in its line with the line number, `mode` bits."""
    line, unit = offset // 128, offset % 128 // 16
    return line * 128 + (unit ^ (line % 2**mode)) * 16 + offset % 16


def tile_elements(box, steps):
    counts = [box[0], *(-(-b // s) for b, s in zip(box[1:], steps[1:], strict=True))]
    for outer in itertools.product(*(range(n) for n in reversed(counts))):
        yield tuple(reversed(outer))


def expected_tile(array, view, at, base):
    """Bytes from shared `base` on. array: numpy view of the tensor with dims reversed (outermost first)."""
    size = array.itemsize
    steps = (1, *view["element_strides"][1:])
    elements = list(tile_elements(view["box"], view["element_strides"]))
    line = 128 if view["swizzle"] else 16
    out = np.zeros(-(-len(elements) * size // line) * line, np.uint8)
    for number, index in enumerate(elements):
        place = [c + i * s for c, i, s in zip(at, index, steps, strict=True)]
        inside = all(0 <= p < n for p, n in zip(place, view["dims"], strict=True))
        value = array[tuple(reversed(place))] if inside else array.dtype.type(0)
        spot = swizzled(base + number * size, view["swizzle"]) - base
        out[spot : spot + size] = np.frombuffer(value.tobytes(), np.uint8)
    return out, len(elements) * size


@st.composite
def views(draw):
    rank = draw(st.integers(1, 5))
    size = draw(st.sampled_from([1, 2, 4, 8]))
    swizzle = draw(st.integers(0, 3))
    inner = draw(st.integers(1, (4 if swizzle == 0 else 2 ** (swizzle - 1) * 2) if rank < 4 else 2)) * 16 // size
    if swizzle:
        inner = min(inner, 16 * 2**swizzle // size)
    dims = [draw(st.integers(1, 70 // size + 1)), *(draw(st.integers(1, 6)) for _ in range(rank - 1))]
    box = [inner, *(draw(st.integers(1, 8 if rank < 3 else 3)) for _ in range(rank - 1))]
    steps = [1, *(draw(st.integers(1, 3)) for _ in range(rank - 1))]
    at = [draw(st.integers(-5, 9)) for _ in range(rank)]
    shift = draw(st.integers(0, 9)) * 128
    return size, {"dims": dims, "box": box, "element_strides": steps, "swizzle": swizzle}, at, shift


def make(size, view, seed=0):
    """A tensor whose rows are padded to 16 bytes, its numpy view (outermost first), and the tensor map."""
    dims = view["dims"]
    pitch = -(-dims[0] * size // 16) * 16
    strides, step = [], pitch
    for n in dims[1:]:
        strides.append(step)
        step *= n
    tensor = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, size=step).astype(np.uint8)).view(
        DTYPES[size]
    )
    array = tensor.numpy().reshape(*reversed(dims[1:]), pitch // size)[..., : dims[0]]
    name = {1: "uint8", 2: "uint16", 4: "int32", 8: "int64"}[size]
    return (
        tensor,
        array,
        TensorMap(tensor, name, dims, strides, view["box"], view["element_strides"], swizzle=view["swizzle"]),
    )


@settings(max_examples=60, deadline=None)
@given(views(), st.sampled_from(["eager", "lazy", "random"]))
def test_loads_of_any_view(case, mode):
    size, view, at, shift = case
    tensor, array, tensor_map = make(size, view)
    expected, count = expected_tile(array, view, at, shift)
    out = torch.zeros(expected.size, dtype=torch.uint8)
    ptx = tensor_kernel(len(at), load_core(len(at)))
    ptx = ptx.replace(READ_ALL, f"mov.u32 %n, {expected.size};\n{READ_ALL}")
    report = launch(ptx, "k", 1, 128, [tensor_map, out, count, shift, *at], target="sm_90a", mode=mode)
    # what swizzling leaves free in the last line of the tile was never written
    gaps = (expected.size - count) // 16
    assert [(f.kind, f.count) for f in report.findings] == [("uninitialized-shared", gaps)] * (gaps > 0), str(report)
    np.testing.assert_array_equal(out.numpy(), expected)
    assert tensor is tensor_map.tensor


@pytest.mark.parametrize(("written", "found"), [(16, ["uninitialized-shared"]), (32, [])])
def test_a_store_reads_the_units_where_swizzling_puts_them(written, found):
    # one unit, in line 1 of its pattern: it stands in the second place of the line
    view = {"dims": [16], "box": [16], "element_strides": [1], "swizzle": 3}
    _, array, tensor_map = make(1, view)
    image = torch.arange(1, 33, dtype=torch.uint8)
    args = [tensor_map, image, written, 128, 0]
    report = launch(tensor_kernel(1, store_core(1)), "k", 1, 128, args, target="sm_90a", checks=("race",))
    assert [f.kind for f in report.findings] == found, str(report)
    assert not found or report.findings[0].message.startswith("read of shared address 0x90")
    if not found:
        assert array.tolist() == list(range(17, 33))


@settings(max_examples=60, deadline=None)
@given(views(), st.sampled_from(["eager", "lazy"]))
def test_stores_of_any_view(case, mode):
    size, view, at, shift = case
    _, array, tensor_map = make(size, view)
    elements = list(tile_elements(view["box"], view["element_strides"]))
    count = -(-len(elements) * size // 128) * 128
    image = np.random.default_rng(1).integers(0, 256, size=count).astype(np.uint8)
    expected = array.copy()
    steps = (1, *view["element_strides"][1:])
    for number, index in enumerate(elements):
        place = [c + i * s for c, i, s in zip(at, index, steps, strict=True)]
        if all(0 <= p < n for p, n in zip(place, view["dims"], strict=True)):
            spot = swizzled(shift + number * size, view["swizzle"]) - shift
            expected[tuple(reversed(place))] = image[spot : spot + size].view(array.dtype)[0]
    args = [tensor_map, torch.from_numpy(image), count, shift, *at]
    report = launch(tensor_kernel(len(at), store_core(len(at))), "k", 1, 128, args, target="sm_90a", mode=mode)
    assert report.ok, str(report)
    np.testing.assert_array_equal(array, expected)


def square(dtype=torch.float32, name="float32", **options):
    tensor = torch.arange(32 * 32).reshape(32, 32).to(dtype)
    pitch = 32 * tensor.element_size()
    return tensor, TensorMap(tensor, name, (32, 32), (pitch,), (16, 8), (1, 1), **options)


def test_nan_fill():
    _, tensor_map = square(oob_fill=1)
    out = torch.zeros(8, 16)
    report = launch(tensor_kernel(2, load_core(2)), "k", 1, 128, [tensor_map, out, 512, 0, 24, 0], target="sm_90a")
    assert report.ok, str(report)
    assert torch.isnan(out[:, 8:]).all()
    assert torch.equal(out[:, :8], tensor_map.tensor[:8, 24:])


@pytest.mark.parametrize(
    ("dtype", "name", "operation", "combine"),
    [
        (torch.float32, "float32", "add", torch.add),
        (torch.float16, "float16", "add", torch.add),
        (torch.bfloat16, "bfloat16", "max", torch.maximum),
        (torch.int32, "int32", "min", torch.minimum),
        (torch.int32, "int32", "xor", torch.bitwise_xor),
        (torch.int64, "int64", "add", torch.add),
    ],
)
def test_reducing_stores(dtype, name, operation, combine):
    tensor = torch.arange(32 * 32).reshape(32, 32).to(dtype)
    size = tensor.element_size()
    tensor_map = TensorMap(tensor, name, (32, 32), (32 * size,), (16, 8), (1, 1))
    tile = (torch.arange(128).reshape(8, 16) % 7 - 3).to(dtype)
    expected = tensor.clone()
    expected[4:12, 20:] = combine(tensor[4:12, 20:], tile[:, :12])
    opcode = f"cp.reduce.async.bulk.tensor.{{rank}}d.global.shared::cta.{operation}.tile.bulk_group"
    args = [tensor_map, tile, 128 * size, 0, 20, 4]
    report = launch(tensor_kernel(2, store_core(2, opcode)), "k", 1, 128, args, target="sm_90a", mode="lazy")
    assert report.ok, str(report)
    assert torch.equal(tensor, expected)


def launch_square(core, *, shift=0, mode="eager", tensor_map=None, rank=2):
    tensor_map = square()[1] if tensor_map is None else tensor_map
    args = [tensor_map, torch.zeros(512, dtype=torch.uint8), 512, shift, *[0] * rank]
    report = launch(tensor_kernel(rank, core), "k", 1, 128, args, target="sm_90a", mode=mode)
    return [(f.kind, f.message) for f in report.findings]


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_missing_proxy_fence_is_reported(mode):
    found = launch_square(store_core(2, fence=""), mode=mode)
    assert [kind for kind, _ in found] == ["proxy-fence"]


def test_a_fence_of_the_elected_thread_after_the_barrier_is_enough():
    core = store_core(2, fence="bar.sync 0;\n@%p0 fence.proxy.async.shared::cta;")
    assert launch_square(core) == []


def test_a_store_nobody_waits_for():
    found = launch_square(store_core(2, wait="@%p0 cp.async.bulk.commit_group;"), mode="lazy")
    assert [kind for kind, _ in found] == ["unfinished-work"]
    assert "cp.async.bulk" in found[0][1]


def test_a_load_read_without_waiting():
    core = load_core(2).replace(WAIT, "bar.sync 0;")
    assert launch_square(core) == []
    kinds = {kind for kind, _ in launch_square(core, mode="lazy")}
    assert kinds == {"uninitialized-shared", "unfinished-work"}


@pytest.mark.parametrize(("expected", "kind"), [(256, "deadlock"), (1024, "deadlock")])
def test_wrong_byte_counts(expected, kind):
    core = load_core(2, bytes_expected=expected)
    assert kind in {kind for kind, _ in launch_square(core, mode="lazy")}


def test_misaligned_tile():
    found = launch_square(load_core(2), shift=64)
    assert found == [("misaligned", found[0][1])]
    assert "multiple of 128" in found[0][1]


def test_tile_beyond_shared_memory():
    assert [kind for kind, _ in launch_square(load_core(2), shift=SHARED)] == ["out-of-bounds"]


def test_rank_of_the_instruction():
    found = launch_square(load_core(3), rank=3)
    assert "a 3-D tile of a tensor map of rank 2" in found[0][1]


def test_an_address_without_a_map():
    found = launch_square("mov.b64 %map, %buf;\n" + load_core(2))
    assert "holds no tensor map" in found[0][1]


def linear_kernel(core):
    return f"""{prologue(".param .u64 pa, .param .u64 pbuf, .param .u32 pn")}
ld.param.u64 %map, [pa];
ld.param.u64 %buf, [pbuf];
ld.param.u32 %n, [pn];
{core}
ret;
}}"""


LINEAR_LOAD = f"""@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %n;
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%map], %n, [%bar];
{WAIT}
{READ_ALL}"""


def linear_store(opcode):
    return f"""{FILL_ALL}
fence.proxy.async;
bar.sync 0;
@%p0 {opcode} [%map], [%tile], %n;
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group.read 0;"""


@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
@pytest.mark.parametrize("count", [16, 4096])
def test_plain_loads(count, mode):
    source = torch.randint(0, 256, (8192,), dtype=torch.uint8)
    out = torch.zeros(8192, dtype=torch.uint8)
    report = launch(linear_kernel(LINEAR_LOAD), "k", 1, 128, [source, out, count], target="sm_90a", mode=mode)
    assert report.ok, str(report)
    assert torch.equal(out[:count], source[:count])
    assert not out[count:].any()


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_plain_stores(mode):
    source = torch.randint(0, 256, (512,), dtype=torch.uint8)
    target = torch.zeros(512, dtype=torch.uint8)
    ptx = linear_kernel(linear_store("cp.async.bulk.global.shared::cta.bulk_group"))
    report = launch(ptx, "k", 1, 128, [target, source, 256], target="sm_90a", mode=mode)
    assert report.ok, str(report)
    assert torch.equal(target[:256], source[:256])
    assert not target[256:].any()


@pytest.mark.parametrize(
    ("kind", "dtype"), [("f32", torch.float32), ("f16", torch.float16), ("s32", torch.int32), ("u64", torch.int64)]
)
def test_plain_reductions(kind, dtype):
    addend, target = torch.arange(128).to(dtype), torch.full((128,), 3).to(dtype)
    expected = addend + target
    noftz = ".noftz" if kind == "f16" else ""
    ptx = linear_kernel(linear_store(f"cp.reduce.async.bulk.global.shared::cta.bulk_group.add{noftz}.{kind}"))
    size = 128 * addend.element_size()
    report = launch(ptx, "k", 4, 128, [target, addend, size], target="sm_90a")
    assert report.ok, str(report)
    assert torch.equal(target, expected + 3 * addend)


def test_plain_copy_rules():
    source, out = torch.zeros(64, dtype=torch.uint8), torch.zeros(64, dtype=torch.uint8)
    report = launch(linear_kernel(LINEAR_LOAD), "k", 1, 128, [source, out, 24], target="sm_90a")
    assert "not a multiple of 16" in report.findings[0].message
    report = launch(linear_kernel(LINEAR_LOAD), "k", 1, 128, [source[8:], out, 16], target="sm_90a")
    assert {f.kind for f in report.findings} == {"misaligned"}


@pytest.mark.parametrize("mode", ["eager", "lazy", "random"])
@pytest.mark.parametrize("mask", [0b01, 0b11])
def test_multicast_to_the_blocks_of_a_cluster(mask, mode):
    """Block 0 loads for every block of the mask; each waits for its own mbarrier at the same offset."""
    core = load_core(2).replace("complete_tx::bytes ", "complete_tx::bytes.multicast::cluster ")
    core = core.replace("[%bar];\nW:", f"[%bar], {mask};\nW:")
    head, _, tail = core.partition("@%p0 cp.async")
    wait = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nmov.u32 %i, %ctaid.x;\n"
    only = "setp.eq.and.u32 %p3, %i, 0, %p0;\n@%p3 cp.async"
    leave = f"mov.u32 %x, 1;\nshl.b32 %x, %x, %i;\nand.b32 %x, %x, {mask};\nsetp.eq.u32 %p2, %x, 0;\n"
    shift = "mul.wide.u32 %o, %i, 512;\nadd.s64 %buf, %buf, %o;\n"
    expect = leave + "@%p2 bra DONE;\n" + head
    ptx = tensor_kernel(2, f"mov.u32 %i, %ctaid.x;\n{shift}{expect}{wait}{only}{tail}")
    if mask != 0b11:
        ptx = ptx.replace("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n", "")
    _, tensor_map = square()
    out = torch.zeros(2, 8, 16)
    report = launch(ptx, "k", 2, 128, [tensor_map, out, 512, 0, 4, 8], cluster=2, target="sm_90a", mode=mode)
    assert report.ok, str(report)
    for block in range(2):
        assert torch.equal(out[block], tensor_map.tensor[8:16, 4:20] * (mask >> block & 1))


RULES = [
    ({"dims": (32,) * 6, "strides": (128,) * 5}, "dims has 6 entries"),
    ({"strides": ()}, "strides has 0 entries"),
    ({"strides": (72,)}, "multiples of 16 bytes"),
    ({"strides": (2**40,)}, "multiples of 16 bytes below"),
    ({"dims": (0, 32)}, "dims must be"),
    ({"box": (16, 257)}, "box must be 1 to 256"),
    ({"box": (3, 8)}, "multiple of 16 bytes"),
    ({"box": (32, 8), "swizzle": 2}, "must fit the 64-byte swizzle"),
    ({"element_strides": (1, 9)}, "element_strides must be"),
    ({"swizzle": 4}, "swizzle is not one of 0 to 3"),
    ({"interleave": 1}, "interleaved"),
    ({"oob_fill": 1, "dtype": "int32"}, "needs a float type"),
    ({"dims": (32, 33)}, "reaches beyond its tensor"),
    ({"dtype": "complex64"}, "not an element type of tensor maps"),
]


@pytest.mark.parametrize(("change", "why"), RULES)
def test_rules_of_tensor_maps(change, why):
    options = {
        "dtype": "float32",
        "dims": (32, 32),
        "strides": (128,),
        "box": (16, 8),
        "element_strides": (1, 1),
    } | change
    with pytest.raises(TensorMapError, match=why):
        TensorMap(torch.zeros(32, 32), **options)


def test_the_tensor_must_be_aligned():
    with pytest.raises(TensorMapError, match="multiple of 16 bytes"):
        TensorMap(torch.zeros(65)[1:], "float32", (64,), (), (16,), (1,))


def test_the_tensor_may_be_a_numpy_array():
    values = np.random.default_rng(5).integers(0, 255, 32 * 32 + 4, np.uint8)
    array = values[-values.ctypes.data % 16 :][: 31 * 32].reshape(31, 32)
    out = np.zeros(16 * 8, np.uint8)
    tensor_map = TensorMap(array, "uint8", (32, 31), (32,), (16, 8), (1, 1))
    ptx = tensor_kernel(2, load_core(2)).replace(READ_ALL, f"mov.u32 %n, {out.size};\n{READ_ALL}")
    report = launch(ptx, "k", 1, 128, [tensor_map, out, out.size, 0, 16, 4], target="sm_90a")
    assert report.ok, str(report)
    np.testing.assert_array_equal(out.reshape(8, 16), array[4:12, 16:])


def test_a_tensor_map_of_no_tensor():
    with pytest.raises(TensorMapError, match="a tensor map of list, which is no tensor"):
        TensorMap([1, 2, 3], "float32", (64,), (), (16,), (1,))


@pytest.mark.parametrize("modifier", [".im2col::w", ".tile::gather4"])
def test_refused_spellings(modifier):
    with pytest.raises(UnsupportedInstruction, match=r"has (unsupported modifier|\d operands)"):
        launch(tensor_kernel(2, load_core(2, modifier)), "k", 1, 128, [], target="sm_90a")
