"""ldmatrix, stmatrix and movmatrix against the PTX ISA: thread 4r + t holds elements 2t, 2t + 1 of row r."""

import numpy as np
import pytest
import torch

from tilewright.vgpu import launch
from tilewright.vgpu.errors import PtxSyntaxError, UnsupportedInstruction

ROWS = 64  # 16-byte rows in shared memory


def kernel(body, registers):
    """Fills 1024 shared bytes from `pin`, gives every lane the address of row prows[lane] in %a, runs `body`."""
    return f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pin, .param .u64 prows, .param .u64 pregs, .param .u64 pout)
{{
.shared .align 16 .b8 tile[{ROWS * 16}];
.reg .b32 %r<10>, %t, %a, %s;
.reg .b64 %in, %rows, %regs, %out, %o, %ga;
mov.u32 %t, %tid.x;
ld.param.u64 %in, [pin];
ld.param.u64 %rows, [prows];
ld.param.u64 %regs, [pregs];
ld.param.u64 %out, [pout];
mul.wide.u32 %o, %t, 32;
add.s64 %in, %in, %o;
mov.u32 %s, tile;
mad.lo.u32 %s, %t, 32, %s;
ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%in];
st.shared.v4.b32 [%s], {{%r0, %r1, %r2, %r3}};
ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%in+16];
st.shared.v4.b32 [%s+16], {{%r0, %r1, %r2, %r3}};
mul.wide.u32 %o, %t, 4;
add.s64 %rows, %rows, %o;
ld.global.u32 %a, [%rows];
mov.u32 %r9, tile;
add.u32 %a, %a, %r9;
mul.wide.u32 %o, %t, {4 * registers};
add.s64 %regs, %regs, %o;
bar.sync 0;
{body}
ret;
}}"""


def load_body(opcode, count):
    registers = ", ".join(f"%r{i}" for i in range(count))
    stores = "\n".join(f"st.global.b32 [%regs+{4 * i}], %r{i};" for i in range(count))
    return f"{opcode} {{{registers}}}, [%a];\n{stores}"


def run(ptx, memory, rows, registers, out, mode="eager"):
    args = [torch.from_numpy(x) for x in (memory, rows, registers, out)]
    return launch(ptx, "k", 1, 32, args, target="sm_90a", mode=mode)


def fragments(matrices):
    """Registers of 32 lanes for matrices [n, 8, 8] of uint16."""
    lanes = np.arange(32)
    row, column = lanes // 4, 2 * (lanes % 4)
    low = matrices[:, row, column].astype(np.uint32)
    return (low | matrices[:, row, column + 1].astype(np.uint32) << 16).T.copy()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("space", [".shared", ".shared::cta"])
def test_ldmatrix(count, trans, space):
    rng = np.random.default_rng(count)
    memory = rng.integers(0, 2**16, size=(ROWS, 8)).astype(np.uint16)
    rows = rng.permutation(ROWS)[:32].astype(np.int32)
    matrices = memory[rows[: 8 * count]].reshape(count, 8, 8)
    out = np.zeros((32, count), np.uint32)
    opcode = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * trans}{space}.b16"
    report = run(kernel(load_body(opcode, count), count), memory, rows * 16, out, np.zeros(1, np.int32))
    assert report.ok, str(report)
    np.testing.assert_array_equal(out, fragments(matrices.transpose(0, 2, 1) if trans else matrices))


def test_ldmatrix_takes_generic_addresses():
    memory = np.arange(ROWS * 8, dtype=np.uint16).reshape(ROWS, 8)
    rows = np.arange(32, dtype=np.int32)
    out = np.zeros((32, 1), np.uint32)
    body = "cvt.u64.u32 %ga, %a;\ncvta.shared.u64 %ga, %ga;\n" + load_body("ldmatrix.sync.aligned.m8n8.x1.b16", 1)
    report = run(kernel(body.replace("[%a]", "[%ga]"), 1), memory, rows * 16, out, np.zeros(1, np.int32))
    assert report.ok, str(report)
    np.testing.assert_array_equal(out, fragments(memory[:8][None]))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix(count, trans):
    rng = np.random.default_rng(count)
    matrices = rng.integers(0, 2**16, size=(count, 8, 8)).astype(np.uint16)
    rows = rng.permutation(ROWS)[:32].astype(np.int32)
    registers = fragments(matrices)
    memory, out = np.zeros((ROWS, 8), np.uint16), np.zeros((ROWS, 8), np.uint16)
    names = ", ".join(f"%r{i}" for i in range(count))
    loads = "\n".join(f"ld.global.b32 %r{i}, [%regs+{4 * i}];" for i in range(count))
    body = f"""{loads}
stmatrix.sync.aligned.m8n8.x{count}{".trans" * trans}.shared.b16 [%a], {{{names}}};
bar.sync 0;
mul.wide.u32 %o, %t, 32;
add.s64 %out, %out, %o;
ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%s];
st.global.v4.b32 [%out], {{%r0, %r1, %r2, %r3}};
ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%s+16];
st.global.v4.b32 [%out+16], {{%r0, %r1, %r2, %r3}};"""
    report = run(kernel(body, count), memory, rows * 16, registers, out)
    assert report.ok, str(report)
    expected = memory.copy()
    expected[rows[: 8 * count]] = (matrices.transpose(0, 2, 1) if trans else matrices).reshape(-1, 8)
    np.testing.assert_array_equal(out, expected)


def test_movmatrix():
    matrix = np.arange(64, dtype=np.uint16).reshape(1, 8, 8)
    registers = fragments(matrix)
    body = """ld.global.b32 %r0, [%regs];
movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;
st.global.b32 [%regs], %r1;"""
    rows = np.zeros(32, np.int32)
    report = run(kernel(body, 1), np.zeros((ROWS, 8), np.uint16), rows, registers, np.zeros(1, np.int32))
    assert report.ok, str(report)
    np.testing.assert_array_equal(registers, fragments(matrix.transpose(0, 2, 1)))


@pytest.mark.parametrize(("shift", "kind"), [(8, "misaligned"), (ROWS * 16, "out-of-bounds")])
def test_bad_row_addresses(shift, kind):
    rows = np.arange(32, dtype=np.int32) * 16
    rows[5] += shift
    out = np.zeros((32, 4), np.uint32)
    body = load_body("ldmatrix.sync.aligned.m8n8.x4.shared.b16", 4)
    report = run(kernel(body, 4), np.zeros((ROWS, 8), np.uint16), rows, out, np.zeros(1, np.int32))
    assert [f.kind for f in report.findings] == [kind]
    assert report.findings[0].lane == 5


def test_reading_rows_nobody_wrote():
    ptx = kernel(load_body("ldmatrix.sync.aligned.m8n8.x1.shared.b16", 1), 1)
    ptx = "\n".join(line for line in ptx.splitlines() if "st.shared.v4.b32 [%s+16]" not in line)
    rows = np.arange(32, dtype=np.int32) * 16
    report = run(ptx, np.zeros((ROWS, 8), np.uint16), rows, np.zeros((32, 1), np.uint32), np.zeros(1, np.int32))
    assert [f.kind for f in report.findings] == ["uninitialized-shared"]


@pytest.mark.parametrize(
    ("opcode", "error", "why"),
    [
        (
            "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8",
            UnsupportedInstruction,
            "needs sm_100a, which the virtual GPU does not run",
        ),
        (
            "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64",
            UnsupportedInstruction,
            "needs sm_100a, which the virtual GPU does not run",
        ),
        ("ldmatrix.sync.aligned.m8n8.x3.shared.b16", UnsupportedInstruction, r"needs one of \.x1, \.x2, \.x4"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16", PtxSyntaxError, "has 1 elements where 2 belong"),
    ],
)
def test_refused_spellings(opcode, error, why):
    with pytest.raises(error, match=why):
        launch(kernel(load_body(opcode, 1), 1), "k", 1, 128, [], target="sm_90a")
