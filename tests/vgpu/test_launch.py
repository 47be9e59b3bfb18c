from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from tilewright import vgpu

COPY = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .s32 n, .param .f32 x, .param .u8 small)
.maxntid 64, 1, 1
{
.reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %d<4>; .reg .b16 %h<2>;
ld.param.u64 %d0, [p]; ld.param.s32 %r0, [n]; ld.param.f32 %f0, [x]; ld.param.u8 %h0, [small];
cvt.rn.f32.s32 %f1, %r0; add.f32 %f2, %f1, %f0; cvt.rn.f32.u16 %f3, %h0; add.f32 %f2, %f2, %f3;
st.global.f32 [%d0], %f2;
ret;
}
"""


def launch(args, **options):
    return vgpu.launch(COPY, "k", 1, options.pop("block", 1), args, target=options.pop("target", "sm_80"), **options)


def test_typed_scalars_and_tensors():
    out = torch.zeros(1)
    assert launch([out, -7, 0.25, 200]).ok
    assert out.item() == 193.25
    array = np.zeros(1, np.float32)
    assert launch([array, np.int64(2), 0.5, 1]).ok
    assert array[0] == 3.5


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (lambda t: [t, 1, 1.0], "the kernel takes 4 arguments"),
        (lambda t: [t, 1.5, 1.0, 0], "argument 1 is a float where the kernel takes .s32"),
        (lambda t: ["text", 1, 1.0, 0], "argument 0 is not a tensor"),
        (lambda t: [t, t, 1.0, 0], "argument 1 has 8 bytes where the kernel takes 4"),
    ],
)
def test_wrong_arguments(args, message):
    with pytest.raises(vgpu.LaunchError, match=message):
        launch(args(torch.zeros(1)))


def test_wrong_launches():
    t = torch.zeros(1)
    with pytest.raises(vgpu.LaunchError, match="no kernel 'other'"):
        vgpu.launch(COPY, "other", 1, 1, [], target="sm_80")
    with pytest.raises(vgpu.LaunchError, match="compiled for at most 64 threads"):
        launch([t, 1, 1.0, 0], block=65)
    with pytest.raises(vgpu.LaunchError, match="mode 'fast' is not a scheduling mode"):
        launch([t, 1, 1.0, 0], mode="fast")
    with pytest.raises(vgpu.LaunchError, match="more shared memory than sm_89 has"):
        launch([t, 1, 1.0, 0], target="sm_89", dynamic_smem=120_000)
    with pytest.raises(vgpu.LaunchError, match="grid must be 1 to 3 positive"):
        vgpu.launch(COPY, "k", 0, 1, [t, 1, 1.0, 0], target="sm_80")
    with pytest.raises(vgpu.LaunchError, match="not an architecture"):
        launch([t, 1, 1.0, 0], target="hopper")
    with pytest.raises(vgpu.LaunchError, match="not a multiple of the cluster"):
        vgpu.launch(COPY, "k", 3, 1, [t, 1, 1.0, 0], target="sm_90a", cluster=2)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("frobnicate.b32 %r0, %r1;", "frobnicate.b32 is not run"),
        ("add.wild.s32 %r0, %r1, %r2;", "add.wild.s32 has unsupported modifier .wild"),
        ("shfl.sync.bfly.b64 %d0, %d1, 1, 31, -1;", "needs one of .b32"),
        ("tcgen05.alloc.b32 [%d0], 32;", "tcgen05.alloc.b32 needs sm_100a, which the virtual GPU does not run"),
        ("cvt.s32.f32 %r0, %f0;", "it takes cvt(.rni|.rzi|.rmi|.rpi)"),
        ("call %d0, (%r0);", "indirect call"),
    ],
)
def test_unsupported_instructions_name_opcode_and_line(make_kernel, statement, message):
    ptx = make_kernel(f".loc 1 33 0\n{statement}", 0) + '.file 1 "model.py"\n'
    line = next(n for n, text in enumerate(ptx.splitlines(), 1) if text == statement)
    with pytest.raises(vgpu.UnsupportedInstruction) as error:
        vgpu.launch(ptx, "k", 1, 1, [], target="sm_90a")
    assert f"PTX line {line}: " in error.value.what
    assert message in error.value.what
    assert "model.py:33" in str(error.value)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("add.s32 %r0, %r1, %nowhere;", "'%nowhere' is not a register"),
        ("add.s32 %d0, %r1, %r2;", "operand '%d0' does not have the 32 bits"),
        ("bra nowhere;", "label 'nowhere' is not defined here"),
        ("ld.global.u32 %r0, %d0;", "'%d0' is not an address"),
        ("add.s32 5, %r0, %r0;", "'5' cannot be written"),
        (".reg .b33 %q;", "a register declaration is malformed"),
        ("ld.global.v4.u32 {%r0, %r1}, [%d0];", "has a vector of 2 elements"),
    ],
)
def test_malformed_statements_name_the_line(make_kernel, statement, message):
    ptx = make_kernel(f"\n{statement}", 0)
    line = next(n for n, text in enumerate(ptx.splitlines(), 1) if text == statement)
    with pytest.raises((vgpu.PtxSyntaxError, vgpu.UnsupportedInstruction), match=f"PTX line {line}: ") as error:
        vgpu.launch(ptx, "k", 1, 1, [], target="sm_90a")
    assert message in error.value.what


def test_text_that_is_not_ptx():
    with pytest.raises(vgpu.PtxSyntaxError, match="PTX line 2: this is not PTX"):
        vgpu.parse(".version 8.0\nint main() {}\n")


def test_source_lines_through_inlining(make_kernel):
    body = """.loc 1 20 1
.loc 2 7 3, function_name $info, inlined_at 1 20 1
.loc 3 9 5, function_name $info, inlined_at 2 7 3
trap;"""
    ptx = make_kernel(body, 0) + '.file 1 "kernel.py"\n.file 2 "lib.h"\n.file 3 "asm.h"\n'
    (finding,) = vgpu.launch(ptx, "k", 1, 1, [], target="sm_80").findings
    assert [str(s) for s in finding.sources] == ["asm.h:9", "lib.h:7", "kernel.py:20"]
    assert str(finding.source) == "kernel.py:20"
    with pytest.raises(vgpu.KernelFault, match="assertion: trap"):
        vgpu.launch(ptx, "k", 1, 1, [], target="sm_80").raise_for_findings()


def test_report_as_json_values_and_text(launch_body):
    good = launch_body("mov.u32 %r0, 1;", [])
    assert good.to_dict()["ok"] is True
    assert str(good) == "k (eager): no findings"
    assert good.counts["instructions"] == 3
    bad = launch_body("trap;", [], grid=3)
    assert bad.to_dict()["findings"][0]["block"] == [0, 0, 0]
    assert "1 finding" in str(bad)


def test_grid_blocks_and_threads_see_their_indices(launch_body):
    out = np.zeros((2, 3, 4, 2, 3, 5), np.uint32)
    names = ["%tid", "%ctaid"]
    body = "\n".join(f"mov.u32 %r{3 * i + j}, {n}.{c};" for i, n in enumerate(names) for j, c in enumerate("xyz"))
    body += """mov.u32 %r10, %ntid.x; mov.u32 %r11, %ntid.y; mov.u32 %r12, %ntid.z; mov.u32 %r13, %nctaid.x;
        mov.u32 %r14, %nctaid.y;
    mad.lo.u32 %r20, %r5, %r14, %r4; mad.lo.u32 %r20, %r20, %r13, %r3; mad.lo.u32 %r20, %r20, %r12, %r2;
        mad.lo.u32 %r20, %r20, %r11, %r1;
    mad.lo.u32 %r20, %r20, %r10, %r0; mad.wide.u32 %d0, %r20, 4, %a0; add.u32 %r20, %r20, 1;
        st.global.u32 [%d0], %r20;"""
    report = launch_body(body, [out], grid=(4, 3, 2), block=(5, 3, 2), threads=2)
    assert report.ok, str(report)
    assert np.array_equal(out.ravel(), np.arange(1, out.size + 1))


def test_import_loads_neither_torch_nor_tilelang():
    code = "import sys, tilewright.vgpu; print('torch' in sys.modules, 'tilelang' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_no_checks_at_all(make_kernel):
    body = """.shared .align 16 .b8 s[256]; mov.u32 %r3, s; mad.lo.u32 %r3, %t, 4, %r3;
        mad.wide.u32 %d0, %t, 4, %a0; ld.global.u32 %r0, [%d0]; st.shared.u32 [%r3], %r0;
        ld.shared.u32 %r2, [s+128]; ld.shared.u32 %r1, [%r3]; st.global.u32 [%d0+128], %r1;"""
    memory = np.arange(64, dtype=np.uint32)  # the kernel is given half of it and leaves its argument
    ptx = make_kernel(body, 1)
    kinds = [f.kind for f in vgpu.launch(ptx, "k", 1, 32, [memory[:32]], target="sm_80").findings]
    assert kinds == ["uninitialized-shared", "out-of-bounds"]
    assert memory[32:].tolist() == list(range(32, 64))
    assert vgpu.launch(ptx, "k", 1, 32, [memory[:32]], target="sm_80", checks=None).ok
    assert memory[32:].tolist() == list(range(32))
