"""tensormap.replace and tensormap.cp_fenceproxy: the tiles that changed maps load, against slices in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

# The map at %a0 goes to shared memory, is changed there and copied to %a1; a tile of it is loaded and copied to %a2.
BODY = """.shared .align 1024 .b8 tile[2048]; .shared .align 128 .b8 map[128]; .shared .align 8 .b64 bar;
mov.u32 %r20, tile; mov.u32 %r21, bar; mov.u32 %r22, map; setp.eq.u32 %p0, %t, 0;
mad.wide.u32 %d0, %t, 4, %a0; ld.global.u32 %r0, [%d0]; shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %r22;
st.shared.u32 [%r1], %r0; cvt.u64.u32 %d1, %r22; cvta.shared.u64 %d1, %d1; bar.warp.sync -1;
{changes}
bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a1], [%r22], 128;
fence.proxy.tensormap::generic.acquire.gpu [%a1], 128;
@%p0 mbarrier.init.shared::cta.b64 [%r21], 1; bar.warp.sync -1;
@!%p0 bra W;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], {bytes};
cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
 [%r20], [%a1, {{{place}}}], [%r21];
W: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r21], 0; @!%p7 bra W;
mov.u32 %r2, %t;
L: shl.b32 %r3, %r2, 2; setp.ge.u32 %p1, %r3, {bytes}; @%p1 bra END; add.u32 %r4, %r20, %r3;
ld.shared.u32 %r5, [%r4]; cvt.u64.u32 %d2, %r3; add.u64 %d2, %d2, %a2; st.global.u32 [%d2], %r5;
add.u32 %r2, %r2, 32; bra L;
END:"""
SHARED, GENERIC = ("shared::cta", "[%r22]"), ("", "[%d1]")


def aligned(data, align=128):
    """A copy of bytes at a multiple of ``align``."""
    room = np.zeros(len(data) + align, np.uint8)
    start = -room.ctypes.data % align
    room[start : start + len(data)] = np.frombuffer(bytes(data), np.uint8)
    return room[start : start + len(data)]


def change(field, value, ordinal="", where=SHARED):
    """One tensormap.replace by thread 0; 64-bit values come in %d9, others in %r9 or as they are."""
    wide = field in ("global_address", "global_stride")
    literal = field in ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode")
    register = "%d9" if wide else "%r9"
    load = "" if literal else f"mov.u{64 if wide else 32} {register}, {value};"
    space = f".{where[0]}" if where[0] else ""
    operands = ", ".join(str(x) for x in (where[1], ordinal, value if literal else register) if x != "")
    return f"{load} @%p0 tensormap.replace.tile.{field}{space}.b1024.b{64 if wide else 32} {operands};\n"


def first_map():
    base = np.arange(128, dtype=np.uint32).reshape(8, 16)
    return vgpu.TensorMap(base, "uint32", (16, 8), (64,), (8, 4), (1, 1)), base


def run(launch_body, changes, tensor, place, rank, count, mode="eager"):
    packed, base = first_map()
    target, out = aligned(bytes(128)), np.zeros(count, np.uint8)
    body = BODY.format(changes=changes, bytes=count, rank=rank, place=", ".join(map(str, place)))
    args = [aligned(packed.pack()), target, out]
    return launch_body(body, args, mode=mode, checks={"race"}, memory=[tensor, base]), out


@pytest.mark.parametrize("mode", vgpu.MODES)
@pytest.mark.parametrize("where", [SHARED, GENERIC])
def test_another_tensor(launch_body, where, mode):
    """20 of 32 columns, 5 rows; the tile at (16, 3) reaches over both edges."""
    tensor = np.arange(1, 161, dtype=np.uint32).reshape(5, 32)
    changes = change("global_address", tensor.ctypes.data, where=where) + change("global_dim", 20, 0, where)
    changes += change("global_dim", 5, 1, where) + change("global_stride", 128, 0, where)
    report, out = run(launch_body, changes, tensor, (16, 3), 2, 8 * 4 * 4, mode)
    assert report.ok, str(report)
    wanted = np.zeros((4, 8), np.uint32)
    wanted[:2, :4] = tensor[3:5, 16:20]
    assert np.array_equal(out.view(np.uint32).reshape(4, 8), wanted)


def test_another_rank_and_type(launch_body):
    tensor = np.arange(3 * 6 * 16, dtype=np.float16).reshape(3, 6, 16)
    changes = change("global_address", tensor.ctypes.data) + change("rank", 2) + change("elemtype", 6)
    changes += change("global_dim", 16, 0) + change("global_dim", 6, 1) + change("global_dim", 3, 2)
    changes += change("global_stride", 32, 0) + change("global_stride", 192, 1)
    changes += (
        change("box_dim", 16, 0) + change("box_dim", 4, 1) + change("box_dim", 2, 2) + change("element_stride", 2, 1)
    )
    changes += change("element_stride", 1, 2)
    report, out = run(launch_body, changes, tensor, (0, 1, 1), 3, 16 * 2 * 2 * 2)
    assert report.ok, str(report)
    assert np.array_equal(out.view(np.float16).reshape(2, 2, 16), tensor[1:3, 1:5:2])


@pytest.mark.parametrize(
    ("number", "dtype"), [(0, np.uint8), (3, np.int32), (5, np.int64), (9, np.float64), (7, np.float32)]
)
def test_types_by_their_numbers(launch_body, number, dtype):
    """The width of an element: a row of 16 bytes has that many of them."""
    tensor = np.arange(64).astype(dtype).reshape(4, 16)
    width = 16 // tensor.itemsize
    changes = change("global_address", tensor.ctypes.data) + change("elemtype", number)
    changes += (
        change("global_stride", 16 * tensor.itemsize, 0) + change("box_dim", width, 0) + change("global_dim", 4, 1)
    )
    report, out = run(launch_body, changes, tensor, (0, 0), 2, 64)
    assert report.ok, str(report)
    assert np.array_equal(out.view(dtype).reshape(4, width), tensor[:, :width])


def test_swizzle_and_fill(launch_body):
    tensor = np.arange(8 * 32, dtype=np.float32).reshape(8, 32)
    changes = change("global_address", tensor.ctypes.data) + change("elemtype", 7) + change("swizzle_mode", 3)
    changes += change("global_dim", 32, 0) + change("global_stride", 128, 0) + change("box_dim", 32, 0)
    changes += change("box_dim", 8, 1) + change("fill_mode", 1)
    report, out = run(launch_body, changes, tensor, (0, 2), 2, 1024)
    assert report.ok, str(report)
    units = out.view(np.float32).reshape(8, 8, 4)
    for row in range(8):
        for unit in range(8):
            got = units[row, unit ^ row]
            if row < 6:
                assert np.array_equal(got, tensor[row + 2, 4 * unit : 4 * unit + 4])
            else:
                assert np.isnan(got).all()


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (change("rank", 5), "illegal", "a tensor map's field cannot be 5"),
        (change("interleave_layout", 1), "illegal", "a tensor map's field cannot be 1"),
        (change("box_dim", 300, 0), "illegal", "a tensor map's field cannot be 300"),
        (change("global_stride", 24, 0), "illegal", "a tensor map's field cannot be 24"),
        (change("rank", 1, where=("shared::cta", "[%r22+64]")), "misaligned", "which is not a multiple of 128"),
        (change("rank", 1, where=("shared::cta", "[tile]")), "uninitialized-shared", "which nothing has written"),
        (change("global_address", 4096), "out-of-bounds", "the tensor of the map"),
    ],
)
def test_what_they_may_not_do(launch_body, changes, kind, message):
    report, _ = run(launch_body, changes, np.zeros(1), (0, 0), 2, 128)
    assert report.findings[0].kind == kind, str(report)
    assert message in report.findings[0].message


def test_a_copy_is_of_the_whole_warp(launch_body):
    body = """.shared .align 128 .b8 map[256]; mov.u32 %r0, map; {guard}
        tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a0], [%r0], 128;
        END:"""
    target = aligned(bytes(128))
    (finding,) = launch_body(body.format(guard="setp.eq.u32 %p0, %t, 3; @%p0 bra END;"), [target]).findings
    assert "all 32 threads of a warp execute together ran without some" in finding.message
    (finding,) = launch_body(
        body.format(guard="and.b32 %r1, %t, 1; shl.b32 %r1, %r1, 7; add.u32 %r0, %r0, %r1;"), [target]
    ).findings
    assert "threads of the warp name different tensor maps" in finding.message
