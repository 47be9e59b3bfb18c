from __future__ import annotations

import numpy as np
import pytest

from tilewright import vgpu

FUNCTION = """.func (.param .b32 result) square_plus(.param .b32 x, .param .b32 y)
{
.reg .b32 %r<4>;
ld.param.b32 %r0, [x];
ld.param.b32 %r1, [y];
mad.lo.s32 %r2, %r0, %r0, %r1;
st.param.b32 [result], %r2;
ret;
}
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;
.global .align 1 .b8 text[14] = {37, 100, 32, 37, 46, 49, 102, 32, 37, 115, 10, 0};
.global .align 1 .b8 word[3] = {111, 107, 0};
"""


def test_divergent_loops_reconverge(launch_body):
    out = np.zeros(64, np.uint32)
    body = """mov.u32 %r0, 0; mov.u32 %r1, 0;
LOOP: setp.ge.u32 %p1, %r1, %t; @%p1 bra DONE; add.u32 %r0, %r0, %r1; add.u32 %r1, %r1, 1; and.b32 %r2, %r1, 1;
    setp.eq.u32 %p2, %r2, 0; @%p2 bra LOOP; add.u32 %r0, %r0, 100; bra LOOP;
DONE: activemask.b32 %r3; popc.b32 %r3, %r3; mad.lo.u32 %r0, %r3, 1000000, %r0; mad.wide.u32 %d0, %t, 4, %a0;
        st.global.u32 [%d0], %r0;"""
    report = launch_body(body, [out], block=64)
    assert report.ok, str(report)
    want = [32 * 10**6 + sum(range(n)) + 100 * ((n + 1) // 2) for n in range(64)]
    assert out.tolist() == want


def test_switch_tables(launch_body):
    out = np.zeros(32, np.uint32)
    body = """and.b32 %r0, %t, 3; brx.idx %r0, TABLE;
TABLE: .branchtargets L0, L1, L2, L1;
L0: mov.u32 %r1, 10; bra END;
L1: mov.u32 %r1, 11; bra END;
L2: mov.u32 %r1, 12;
END: mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r1;"""
    report = launch_body(body, [out])
    assert report.ok, str(report)
    assert out.tolist() == [[10, 11, 12, 11][n & 3] for n in range(32)]


def test_calls_by_some_lanes(launch_body):
    out = np.zeros(32, np.uint32)
    body = """mov.u32 %r1, 7; setp.lt.u32 %p1, %t, 20; @!%p1 bra SKIP;
    { .param .b32 p0; .param .b32 p1; .param .b32 ret0; st.param.b32 [p0], %t; st.param.b32 [p1], 1;
    call (ret0), square_plus, (p0, p1); ld.param.b32 %r1, [ret0]; }
SKIP: mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r1;"""
    report = launch_body(body, [out], module=FUNCTION)
    assert report.ok, str(report)
    assert out.tolist() == [n * n + 1 if n < 20 else 7 for n in range(32)]


def test_unknown_callees_are_refused(make_kernel):
    with pytest.raises(vgpu.UnsupportedInstruction, match="call of nowhere, which has no body"):
        vgpu.launch(make_kernel("call nowhere;", 0, module=".extern .func nowhere();"), "k", 1, 1, [], target="sm_80")


def test_printf(launch_body):
    body = """.local .align 8 .b8 args[24]; add.s32 %r1, %t, -5; st.local.u32 [args], %r1;
        mov.f64 %g0, 0d3FF8000000000000; st.local.f64 [args+8], %g0;
    mov.u64 %d0, word; cvta.global.u64 %d0, %d0; st.local.u64 [args+16], %d0; mov.u64 %d1, text;
        cvta.global.u64 %d1, %d1; mov.u64 %d2, args; cvta.local.u64 %d2, %d2;
    { .param .b64 p0; .param .b64 p1; .param .b32 r0; st.param.b64 [p0], %d1; st.param.b64 [p1], %d2;
        call.uni (r0), vprintf, (p0, p1); }"""
    report = launch_body(body, [], block=2, module=FUNCTION)
    assert report.ok, str(report)
    assert report.output == "-5 1.5 ok\n-4 1.5 ok\n"


def test_assert_and_trap_end_the_launch(launch_body):
    body = """mov.u64 %d1, word; cvta.global.u64 %d1, %d1; setp.eq.u32 %p1, %t, 3; @!%p1 bra OK;
    { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4; st.param.b64 [p0], %d1;
        st.param.b64 [p1], %d1;
    st.param.b32 [p2], 12; st.param.b64 [p3], %d1; st.param.b64 [p4], 1; call.uni __assertfail, (p0, p1, p2, p3, p4); }
OK:"""
    report = launch_body(body, [], module=FUNCTION)
    assert [(f.kind, f.lane) for f in report.findings] == [("assertion", 3)]
    assert report.findings[0].message == "assertion failed: ok in ok at ok:12"
    assert launch_body("trap;", []).findings[0].message == "trap"


def test_labels_and_registers_of_inner_scopes(launch_body):
    out = np.zeros(1, np.uint32)
    body = """mov.u32 %r0, 1;
    { .reg .b32 %r0; .reg .pred P1; mov.u32 %r0, 50; setp.eq.u32 P1, %r0, 50; @P1 bra DONE; trap; DONE: }
    { .reg .b32 %r0; mov.u32 %r0, 60; bra DONE; trap; DONE: }
    st.global.u32 [%a0], %r0;"""
    assert launch_body(body, [out], block=1).ok
    assert out[0] == 1


def test_an_endless_loop_is_a_finding(launch_body):
    report = launch_body("L: bra L;", [], budget=10_000)
    assert report.findings[0].kind == "runaway"


def test_blocks_that_wait_for_each_other_all_run(launch_body):
    flags = np.zeros(4, np.uint32)
    body = """mov.u32 %r0, %ctaid.x; setp.ne.u32 %p0, %t, 0; @%p0 ret; red.global.add.u32 [%a0], 1;
WAIT: ld.acquire.gpu.global.u32 %r1, [%a0]; setp.lt.u32 %p1, %r1, 4; @%p1 bra WAIT;
    add.u32 %r2, %r0, 1; mov.u32 %r3, %r2;"""
    report = launch_body(body, [flags], grid=4, threads=1)
    assert report.ok, str(report)
    assert flags[0] == 4


def test_lanes_that_wait_for_each_other_all_run(launch_body):
    out = np.zeros(32, np.uint32)
    body = """.shared .align 4 .u32 flag; setp.eq.u32 %p0, %t, 5; @%p0 st.shared.u32 [flag], 0; bar.sync 0;
    @%p0 bra LATE;
WAIT: ld.volatile.shared.u32 %r0, [flag]; setp.eq.u32 %p1, %r0, 0; @%p1 bra WAIT; bra END;
LATE: mov.u32 %r0, 9; st.volatile.shared.u32 [flag], 9;
END: mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r0;"""
    for mode in vgpu.MODES:
        report = launch_body(body, [out], mode=mode, budget=10_000_000)
        assert report.ok, str(report)
        assert set(out.tolist()) == {9}


# Functions with one prototype, and one with another.
TABLE = """.func (.param .b32 r) twice(.param .b32 x, .param .b32 y)
{ .reg .b32 %r<4>; ld.param.b32 %r0, [x]; ld.param.b32 %r1, [y]; mad.lo.s32 %r2, %r0, 2, %r1;
st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) square(.param .b32 x, .param .b32 y)
{ .reg .b32 %r<4>; ld.param.b32 %r0, [x]; ld.param.b32 %r1, [y]; mad.lo.s32 %r2, %r0, %r0, %r1;
st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) chosen(.param .b32 x, .param .b32 y)
{ .reg .b32 %r<4>; .reg .b64 %d<2>; .reg .pred %p;
ld.param.b32 %r0, [x]; ld.param.b32 %r1, [y]; setp.lt.s32 %p, %r0, 10; mov.u64 %d0, twice; mov.u64 %d1, square;
selp.b64 %d0, %d0, %d1, %p; add.s32 %r1, %r1, 1000;
{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r0; st.param.b32 [b], %r1;
P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
call (c), %d0, (a, b), P; ld.param.b32 %r2, [c]; }
st.param.b32 [r], %r2; ret; }
.func other(.param .b64 x)
{ ret; }
.global .align 8 .u64 table[3] = {twice, square, chosen};
.global .align 8 .u64 wrong[1] = {other};
"""
INDIRECT = """rem.u32 %r0, %t, 3; mul.wide.u32 %d0, %r0, 8; mov.u64 %d1, {name}; add.u64 %d1, %d1, %d0;
ld.global.u64 %d2, [%d1];
{{ .param .b32 p0; .param .b32 p1; .param .b32 q; st.param.b32 [p0], %t; st.param.b32 [p1], 7;
{kind}
@%p0 call (q), %d2, (p0, p1), HOW; @%p0 ld.param.b32 %r1, [q]; }}
@!%p0 mov.u32 %r1, 5; mad.wide.u32 %d3, %t, 4, %a0; st.global.u32 [%d3], %r1;"""
PROTOTYPE = "HOW: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);"


def indirect(launch_body, guard, kind=PROTOTYPE, name="table", module=TABLE):
    out = np.zeros(64, np.uint32)
    body = f"{guard} {INDIRECT.format(kind=kind, name=name)}"
    return launch_body(body, [out], block=64, module=module), out


@pytest.mark.parametrize("guard", ["setp.ge.u32 %p0, %t, 0;", "and.b32 %r9, %t, 5; setp.ne.u32 %p0, %r9, 0;"])
@pytest.mark.parametrize("kind", [PROTOTYPE, "HOW: .calltargets twice, square, chosen;"])
def test_calls_through_a_table(launch_body, guard, kind):
    report, out = indirect(launch_body, guard, kind)
    assert report.ok, str(report)

    def value(t):
        if "and.b32" in guard and t & 5 == 0:
            return 5
        extra = 7 + 1000 * (t % 3 == 2)
        doubled = t % 3 == 0 or (t % 3 == 2 and t < 10)
        return (2 * t if doubled else t * t) + extra

    assert out.tolist() == [value(t) for t in range(64)]


def test_calls_through_a_register_that_cannot_be(launch_body):
    always = "setp.ge.u32 %p0, %t, 0;"
    report, _ = indirect(launch_body, always, name="wrong")
    assert report.findings[0].kind in ("illegal", "out-of-bounds")
    report, _ = indirect(launch_body, always, kind="HOW: .calltargets square;")
    assert report.findings[0].kind == "illegal"
    assert "which is no function of this prototype" in report.findings[0].message
    report, _ = indirect(launch_body, always, module=TABLE.replace("mov.u64 %d0, twice", "mov.u64 %d0, chosen"))
    assert report.findings[0].kind == "illegal"
    assert "calls are nested deeper than 512" in report.findings[0].message
    with pytest.raises(vgpu.PtxSyntaxError, match=r"'HOW' is no \.callprototype or \.calltargets"):
        indirect(launch_body, always, kind="")
    with pytest.raises(vgpu.PtxSyntaxError, match="'nowhere' of HOW is no function with a body"):
        indirect(launch_body, always, kind="HOW: .calltargets nowhere;")


def test_virtual_functions_of_cuda(cuda_to_ptx):
    source = """struct Shape { virtual __device__ int area(int n) const = 0; };
struct Square : Shape {
  int a;
  __device__ Square(int a) : a(a) {}
  __device__ int area(int n) const override { return a * a + n; }
};
struct Line : Shape { __device__ int area(int n) const override { return -n; } };
typedef int (*Op)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int mul(int a, int b) { return a * b; }
__device__ Op ops[2] = {add, mul};
extern "C" __global__ void k(int* out, int pick) {
  int t = threadIdx.x;
  Square s(t); Line l; const Shape* p = (t ^ pick) & 1 ? (const Shape*)&s : &l;
  out[t] = p->area(pick) + 1000 * ops[(t >> 1) & 1](t, pick);
}"""
    out = np.zeros(32, np.int32)
    report = vgpu.launch(cuda_to_ptx(source, "sm_80"), "k", 1, 32, [out, 6], target="sm_80")
    assert report.ok, str(report)
    want = [(t * t + 6 if t & 1 else -6) + 1000 * (t * 6 if t >> 1 & 1 else t + 6) for t in range(32)]
    assert out.tolist() == want


RECURSIVE = """.func (.param .b64 r) fib(.param .b32 n)
{ .reg .b32 %r<6>; .reg .b64 %d<6>; .reg .pred %p; .local .align 8 .b8 kept[8];
ld.param.b32 %r0, [n]; cvt.u64.u32 %d0, %r0; setp.lt.u32 %p, %r0, 2; @%p bra DONE;
sub.u32 %r1, %r0, 1; sub.u32 %r2, %r0, 2;
{ .param .b32 a; .param .b64 b; st.param.b32 [a], %r1; call (b), fib, (a); ld.param.b64 %d1, [b]; }
st.local.u64 [kept], %d1;
{ .param .b32 a; .param .b64 b; st.param.b32 [a], %r2; call (b), fib, (a); ld.param.b64 %d2, [b]; }
ld.local.u64 %d3, [kept]; add.u64 %d0, %d2, %d3; ld.param.b32 %r4, [n]; setp.ne.u32 %p, %r4, %r0; @%p trap;
DONE: st.param.b64 [r], %d0; ret; }
.func (.param .b32 r) even(.param .b32 n);
.func (.param .b32 r) odd(.param .b32 n)
{ .reg .b32 %r<4>; .reg .pred %p; ld.param.b32 %r0, [n]; mov.u32 %r2, 0; setp.eq.u32 %p, %r0, 0; @%p bra DONE;
sub.u32 %r1, %r0, 1;
{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), even, (a); ld.param.b32 %r2, [b]; }
ld.param.b32 %r3, [n]; setp.ne.u32 %p, %r3, %r0; @%p trap;
DONE: st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) even(.param .b32 n)
{ .reg .b32 %r<4>; .reg .pred %p; ld.param.b32 %r0, [n]; mov.u32 %r2, 1; setp.eq.u32 %p, %r0, 0; @%p bra DONE;
sub.u32 %r1, %r0, 1;
{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), odd, (a); ld.param.b32 %r2, [b]; }
DONE: st.param.b32 [r], %r2; ret; }
"""


@pytest.mark.parametrize("mode", vgpu.MODES)
def test_recursion(launch_body, mode):
    """Every lane goes to its own depth; what a call keeps in registers, parameters and local memory stays its own."""
    out = np.zeros((32, 2), np.uint64)
    body = """rem.u32 %r0, %t, 13;
        { .param .b32 x; .param .b64 y; st.param.b32 [x], %r0; call (y), fib, (x); ld.param.b64 %d0, [y]; }
        { .param .b32 x; .param .b32 y; st.param.b32 [x], %t; call (y), even, (x); ld.param.b32 %r1, [y]; }
        cvt.u64.u32 %d1, %r1; mad.wide.u32 %d2, %t, 16, %a0; st.global.v2.u64 [%d2], {%d0, %d1};"""
    report = launch_body(body, [out], module=RECURSIVE, mode=mode)
    assert report.ok, str(report)
    fibonacci = [0, 1]
    while len(fibonacci) < 13:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    assert out[:, 0].tolist() == [fibonacci[t % 13] for t in range(32)]
    assert out[:, 1].tolist() == [1 - t % 2 for t in range(32)]


def test_recursion_of_cuda(cuda_to_ptx):
    source = """__device__ __noinline__ unsigned ack(unsigned m, unsigned n) {
  if (m == 0) return n + 1;
  if (n == 0) return ack(m - 1, 1);
  return ack(m - 1, ack(m, n - 1));
}
extern "C" __global__ void k(unsigned* out) {
  out[threadIdx.x] = ack(threadIdx.x & 1, threadIdx.x / 2) + ack(2, threadIdx.x & 3);
}"""
    out = np.zeros(32, np.uint32)
    report = vgpu.launch(cuda_to_ptx(source, "sm_80"), "k", 1, 32, [out], target="sm_80")
    assert report.ok, str(report)
    ackermann = [lambda n: n + 1, lambda n: n + 2]
    assert out.tolist() == [ackermann[t & 1](t // 2) + 2 * (t & 3) + 3 for t in range(32)]


def test_what_recursion_may_not_do(launch_body):
    body = "{ .param .b32 x; .param .b64 y; st.param.b32 [x], 5; call (y), fib, (x); }"
    pointer = RECURSIVE.replace("st.local.u64 [kept], %d1;", "mov.u64 %d5, kept; st.local.u64 [%d5], %d1;")
    (finding,) = launch_body(body, [], module=pointer, block=1).findings
    assert finding.kind == "illegal"
    assert "a recursive call of a function that takes the address of its local memory" in finding.message
    endless = RECURSIVE.replace("setp.lt.u32 %p, %r0, 2;", "setp.lt.u32 %p, %r0, 0;")
    (finding,) = launch_body(body, [], module=endless, block=1).findings
    assert "calls are nested deeper than 512" in finding.message


def test_parameters_of_one_name_in_two_functions(launch_body):
    """The caller reads its own again behind the call."""
    out = np.zeros(32, np.uint32)
    module = """.func (.param .b32 r) inner(.param .b32 x)
{ .reg .b32 %r<2>; ld.param.b32 %r0, [x]; st.param.b32 [r], %r0; ret; }
.func (.param .b32 r) outer(.param .b32 x)
{ .reg .b32 %r<3>; { .param .b32 a; .param .b32 b; st.param.b32 [a], 100; call (b), inner, (a); ld.param.b32 %r1, [b]; }
ld.param.b32 %r0, [x]; add.u32 %r2, %r0, %r1; st.param.b32 [r], %r2; ret; }
"""
    body = """{ .param .b32 a; .param .b32 b; st.param.b32 [a], %t; call (b), outer, (a); ld.param.b32 %r0, [b]; }
        mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r0;"""
    assert launch_body(body, [out], module=module).ok
    assert out.tolist() == [100 + t for t in range(32)]


STACK = """.func (.param .b64 r) sum(.param .b32 n)
{ .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .pred %p; ld.param.b32 %r0, [n]; mul.wide.u32 %d0, %r0, 8;
alloca.u64 %d1, %d0, 16; mov.u32 %r1, 0;
FILL: mul.wide.u32 %d2, %r1, 8; add.u64 %d2, %d2, %d1; cvt.u64.u32 %d3, %r1; st.local.u64 [%d2], %d3;
add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r0; @%p bra FILL;
mov.u64 %d4, 0; mov.u32 %r1, 0; setp.lt.u32 %p, %r0, 3; @%p bra ADD;
sub.u32 %r2, %r0, 2; { .param .b32 a; .param .b64 b; st.param.b32 [a], %r2; call (b), sum, (a); ld.param.b64 %d4, [b]; }
ADD: mul.wide.u32 %d2, %r1, 8; add.u64 %d2, %d2, %d1; ld.local.u64 %d3, [%d2]; add.u64 %d4, %d4, %d3;
add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %r0; @%p bra ADD;
st.param.b64 [r], %d4; ret; }
"""


def test_memory_of_the_stack(launch_body):
    """Arrays of a length that is known when it runs, one for each activation; they are free again behind the call."""
    out = np.zeros(32, np.uint64)
    body = """mov.u32 %r9, 0; cvta.local.u64 %d8, %d8;
        AGAIN: add.u32 %r0, %t, 1;
        { .param .b32 x; .param .b64 y; st.param.b32 [x], %r0; call (y), sum, (x); ld.param.b64 %d0, [y]; }
        add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 40; @%p1 bra AGAIN;
        mad.wide.u32 %d2, %t, 8, %a0; st.global.u64 [%d2], %d0;"""
    report = launch_body(body.replace("cvta.local.u64 %d8, %d8;", ""), [out], module=STACK)
    assert report.ok, str(report)
    assert out.tolist() == [sum(n * (n - 1) // 2 for n in range(t + 1, 0, -2)) for t in range(32)]


def test_saving_and_restoring_the_stack(launch_body):
    out = np.zeros(4, np.uint64)
    body = """stacksave.u64 %d0; alloca.u64 %d1, 100; alloca.u64 %d2, 8, 64; stackrestore.u64 %d0; alloca.u64 %d3, 100;
        sub.u64 %d4, %d1, %d0; sub.u64 %d5, %d3, %d1; and.b64 %d6, %d2, 63; sub.u64 %d7, %d2, %d1;
        st.global.v2.u64 [%a0], {%d4, %d5}; st.global.v2.u64 [%a0+16], {%d6, %d7};"""
    assert launch_body(body, [out], block=1).ok
    assert out[:3].tolist() == [0, 0, 0]
    assert out[3] >= 100
    (finding,) = launch_body("alloca.u64 %d0, 16000; alloca.u64 %d1, 1000;", [], block=1).findings
    assert "alloca of 1000 bytes: a thread has a stack of 16384, of which 16000 are in use" in finding.message
    (finding,) = launch_body("stacksave.u64 %d0; add.u64 %d0, %d0, 8; stackrestore.u64 %d0;", [], block=1).findings
    assert "which no stacksave of this thread gave" in finding.message
