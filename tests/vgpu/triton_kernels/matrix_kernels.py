"""Triton kernels on matrix units and tensor maps; ``remake.py`` compiles them."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACC: tl.constexpr
):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    rm = (first + pid % (GROUP * columns) % height) * BM + tl.arange(0, BM)
    rn = pid % (GROUP * columns) // height * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), ACC)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        y = tl.load(b + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=ACC)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=mask)


@triton.jit
def split_k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.program_id(2) * BK, K, BK * SPLITS):
        rk = k + tl.arange(0, BK)
        acc = tl.dot(tl.load(a + rm[:, None] * K + rk[None, :]), tl.load(b + rk[:, None] * N + rn[None, :]), acc)
    tl.atomic_add(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), sem="relaxed")


@triton.jit
def attention(q, k, v, out, lse, scale, T, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1)
    rm, rd = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    base = head * T * D
    x = tl.load(q + base + rm[:, None] * D + rd[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, (tl.program_id(0) + 1) * BM if CAUSAL else T, BN):
        rn = n + tl.arange(0, BN)
        s = tl.dot(x, tl.trans(tl.load(k + base + rn[:, None] * D + rd[None, :]))) * scale * 1.44269504
        if CAUSAL:
            s = tl.where(rm[:, None] >= rn[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, 1)
        y = tl.load(v + base + rn[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(y.dtype), y, acc * shrink[:, None])
        top = new
    tl.store(out + base + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(out.dtype.element_ty))
    tl.store(lse + head * T + rm, (top + tl.log2(total)) / 1.44269504)


@triton.jit
def tma_matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(c.dtype))


@triton.jit
def specialised(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIAL: tl.constexpr):
    columns = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0), warp_specialize=SPECIAL):
        m, n = tile // columns * BM, tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
        c.store([m, n], acc.to(c.dtype))


@triton.jit
def scaled(a, sa, b, sb, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk, rs = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK), tl.arange(0, BK // 32)
    x = tl.load(a + rm[:, None] * BK + rk[None, :])
    y = tl.load(b + tl.arange(0, BK // 2)[:, None] * BN + rn[None, :])
    u = tl.load(sa + rm[:, None] * (BK // 32) + rs[None, :])
    v = tl.load(sb + rn[:, None] * (BK // 32) + rs[None, :])
    tl.store(c + rm[:, None] * BN + rn[None, :], tl.dot_scaled(x, u, "e4m3", y, v, "e2m1"))
