// mma.sync: handlers over the fragment arithmetic of mma_math.h.
#include "collective.h"
#include "mma_math.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

// imm: format of A, format of B, accumulator, chunks of k, saturate. ops: D, A, B, C registers.
Step mma_sync(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const MmaShape shape{static_cast<Format>(i.imm[0]), static_cast<Format>(i.imm[1]), static_cast<Accumulator>(i.imm[2]),
                       static_cast<uint8_t>(i.imm[3]), i.imm[4] != 0};
  const int results = shape.accumulator == Accumulator::f16 ? 2 : 4;
  const uint32_t* op = i.ops;
  ConstLanes32 a[4], b[2], c[4];
  Lanes32 d[4];
  for (int k = 0; k < results; ++k) d[k] = w.r32(*op++);
  for (int k = 0; k < 2 * shape.chunks; ++k) a[k] = w.r32(*op++);
  for (int k = 0; k < shape.chunks; ++k) b[k] = w.r32(*op++);
  for (int k = 0; k < results; ++k) c[k] = w.r32(*op++);
  mma_m16n8(shape, a, b, c, d);
  return Step::next;
}

// m8n8 products run as m16n8 ones whose lower half is zero and has nowhere to go.
alignas(64) const uint32_t kNothing[kLanes] = {};

struct HalfTile {
  uint32_t dropped[kLanes];
  ConstLanes32 a[2], b[1], c[4];
  Lanes32 d[4];

  // ops: D, A, B, C registers: 2, 1, 1, 2.
  HalfTile(Warp& w, const uint32_t* op)
      : a{w.r32(op[2]), kNothing},
        b{w.r32(op[3])},
        c{w.r32(op[4]), w.r32(op[5]), kNothing, kNothing},
        d{w.r32(op[0]), w.r32(op[1]), dropped, dropped} {}
};

// m8n8k16 and m8n8k32. imm as mma_sync.
Step mma_eight(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  HalfTile t(w, i.ops);
  mma_m16n8({static_cast<Format>(i.imm[0]), static_cast<Format>(i.imm[1]), Accumulator::s32, 1, i.imm[4] != 0}, t.a, t.b,
            t.c, t.d);
  return Step::next;
}

// imm: chunks of k, and (else xor), rows.
Step mma_b1(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  if (i.imm[2] == 8) {
    HalfTile t(w, i.ops);
    mma_m16n8_b1(1, i.imm[1] != 0, t.a, t.b, t.c, t.d);
    return Step::next;
  }
  const int chunks = static_cast<int>(i.imm[0]);
  const uint32_t* op = i.ops;
  ConstLanes32 a[4], b[2], c[4];
  Lanes32 d[4];
  for (int k = 0; k < 4; ++k) d[k] = w.r32(*op++);
  for (int k = 0; k < 2 * chunks; ++k) a[k] = w.r32(*op++);
  for (int k = 0; k < chunks; ++k) b[k] = w.r32(*op++);
  for (int k = 0; k < 4; ++k) c[k] = w.r32(*op++);
  mma_m16n8_b1(chunks, i.imm[1] != 0, a, b, c, d);
  return Step::next;
}

// imm: rows, depth, rounding.
Step mma_double(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const int rows = static_cast<int>(i.imm[0]), depth = static_cast<int>(i.imm[1]);
  const int results = rows / 4, steps = depth / 4;
  const auto lanes = [&](uint32_t op) { return reinterpret_cast<double*>(w.r64(op)); };
  const uint32_t* op = i.ops;
  const double *a[8], *b[4], *c[4];
  double* d[4];
  for (int k = 0; k < results; ++k) d[k] = lanes(*op++);
  for (int k = 0; k < steps * rows / 8; ++k) a[k] = lanes(*op++);
  for (int k = 0; k < steps; ++k) b[k] = lanes(*op++);
  for (int k = 0; k < results; ++k) c[k] = lanes(*op++);
  mma_f64(rows, depth, static_cast<Round>(i.imm[2]), a, b, c, d);
  return Step::next;
}

// imm: A by columns, B by columns, C and D in f32.
Step mma_quads(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const QuadShape shape{i.imm[0] != 0, i.imm[1] != 0, i.imm[2] != 0, i.imm[3] != 0};
  const uint32_t* op = i.ops;
  ConstLanes32 a[2], b[2], c[8];
  Lanes32 d[8];
  for (int k = 0; k < (shape.d_wide ? 8 : 4); ++k) d[k] = w.r32(*op++);
  for (auto& lanes : a) lanes = w.r32(*op++);
  for (auto& lanes : b) lanes = w.r32(*op++);
  for (int k = 0; k < (shape.c_wide ? 8 : 4); ++k) c[k] = w.r32(*op++);
  mma_quad(shape, a, b, c, d);
  return Step::next;
}

}  // namespace

void register_mma(Registry& r) {
  r.add("mma.sync", mma_sync);
  r.add("mma.eight", mma_eight);
  r.add("mma.quad", mma_quads);
  r.add("mma.b1", mma_b1);
  r.add("mma.f64", mma_double);
}

}  // namespace tilewright::vgpu
