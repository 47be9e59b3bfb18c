from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize(("op", "t", "dtype", "start", "want"), [
    ("add", "u32", np.uint32, 5, 5 + sum(range(64))),
    ("min", "s32", np.int32, 50, 0),
    ("max", "u64", np.uint64, 7, 63),
    ("add", "f32", np.float32, 0.5, 0.5 + sum(range(64))),
    ("add", "f64", np.float64, 0.5, 0.5 + sum(range(64))),
    ("or", "b32", np.uint32, 128, 128 | 63),
    ("xor", "b32", np.uint32, 0, 0),
    ("inc", "u32", np.uint32, 0, 64 % 41 if False else 0),
])  # fmt: skip
def test_red_over_threads(launch_body, op, t, dtype, start, want):
    cell = np.array([start], dtype)
    source = {"f32": "cvt.rn.f32.u32 %f0, %t;", "f64": "cvt.rn.f64.u32 %g0, %t;", "u64": "cvt.u64.u32 %d0, %t;"}.get(
        t, "mov.b32 %r0, %t;"
    )
    register = {"f32": "%f0", "f64": "%g0", "u64": "%d0"}.get(t, "%r0")
    if op == "inc":
        source, want = "mov.u32 %r0, 40;", 64 % 41
    report = launch_body(f"{source} red.global.{op}.{t} [%a0], {register};", [cell], block=64, threads=2)
    assert report.ok, str(report)
    assert cell[0] == want


def test_atom_returns_every_old_value_once(launch_body):
    cell, seen = np.zeros(1, np.uint32), np.zeros(256, np.uint32)
    body = """mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 64, %t; atom.global.add.u32 %r0, [%a0], 1;
        mad.wide.u32 %d0, %r2, 4, %a1; st.global.u32 [%d0], %r0;"""
    assert launch_body(body, [cell, seen], block=64, grid=4, threads=2).ok
    assert sorted(seen.tolist()) == list(range(256))


def test_cas_and_exch(launch_body):
    cell, out = np.array([3], np.uint32), np.zeros(2, np.uint32)
    body = (
        "atom.global.cas.b32 %r0, [%a0], 3, 9; atom.global.exch.b32 %r1, [%a0], 11; st.global.v2.u32 [%a1], {%r0, %r1};"
    )
    assert launch_body(body, [cell, out], block=1).ok
    assert (out.tolist(), cell[0]) == ([3, 9], 11)


def test_vectors_and_halves(launch_body):
    pair, out = np.array([1.0, 2.0], np.float32), np.zeros(2, np.float32)
    body = """mov.f32 %f0, 0f3F000000; atom.global.add.v2.f32 {%f1, %f2}, [%a0], {%f0, %f0};
        st.global.v2.f32 [%a1], {%f1, %f2};"""
    assert launch_body(body, [pair, out], block=1).ok
    assert (pair.tolist(), out.tolist()) == ([1.5, 2.5], [1.0, 2.0])
    halves = np.array([1.0, -4.0], np.float16)
    assert launch_body("mov.b32 %r0, 0x38003C00; red.global.add.noftz.f16x2 [%a0], %r0;", [halves], block=2).ok
    assert halves.tolist() == [3.0, -3.0]


def test_shared_atomics(launch_body):
    out = np.zeros(1, np.uint32)
    body = """.shared .align 4 .u32 s; setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [s], 0; bar.sync 0;
        red.shared.add.u32 [s], %t; bar.sync 0; @%p0 ld.shared.u32 %r0, [s]; @%p0 st.global.u32 [%a0], %r0;"""
    report = launch_body(body, [out], block=96)
    assert report.ok, str(report)
    assert out[0] == sum(range(96))
