// wgmma.mma_async: each warp of a warpgroup multiplies its 16 rows; B is converted once for the four of them.
#include <algorithm>
#include <array>
#include <vector>

#include "collective.h"
#include "interpret.h"
#include "observe.h"
#include "registry.h"
#include "swizzle.h"
#include "wgmma_math.h"

namespace tilewright::vgpu {

// Panels of B by warpgroup: the warps of a group run the same instructions, but not at the same time.
struct PanelCache {
  static constexpr size_t kDepth = 16;

  struct Entry {
    uint64_t descriptor = 0;
    uint64_t sequence = 0;  // 0 = empty
    std::array<uint32_t, 3> block{};
    std::vector<float> panel;
  };
  std::vector<std::array<Entry, kDepth>> groups;
};

namespace {

struct Wgmma {
  Format a, b;
  Accumulator accumulator;
  int columns;
  bool a_in_registers, saturate, sparse;
  bool negate, transpose_a, transpose_b, fresh;
  MatrixDescriptor a_matrix, b_matrix;
  uint64_t b_bits;
  uint64_t sequence;
  uint8_t a_registers[4][kSlotBytes];
  Kept kept;  // sparse

  int b_chunks() const { return sparse ? kSparseChunks : kWgmmaChunks; }
  size_t panel_floats() const {
    return static_cast<size_t>((columns + 15) / 16 * 16 * b_chunks() * chunk_elements(b));
  }
};

constexpr int kWarpRows = 16;

const uint8_t* operand_chunk(Warp& w, const Instr& i, uint32_t address) {
  static const uint8_t zeros[16] = {};
  const uint8_t* chunk = shared_chunk(w, i, 0, address, Proxy::async);
  return chunk ? chunk : zeros;
}

// Eight rows (K-major) or eight columns of a transposed operand, from row 8 * group on.
void gather(Warp& w, const Instr& i, const MatrixDescriptor& matrix, bool transposed, int chunks, uint32_t group,
            uint8_t* raw) {
  const auto steps = static_cast<uint32_t>(chunks);
  if (transposed) {
    for (uint32_t k = 0; k < 8 * steps; ++k) std::memcpy(raw + 16 * k, operand_chunk(w, i, matrix.column_chunk(group, k)), 16);
    return;
  }
  for (uint32_t chunk = 0; chunk < steps; ++chunk) {
    for (uint32_t row = 0; row < 8; ++row, raw += 16) {
      std::memcpy(raw, operand_chunk(w, i, matrix.row_chunk(8 * group + row, chunk)), 16);
    }
  }
}

void load_a(Warp& w, const Instr& i, const Wgmma& op, float* panel) {
  for (int half = 0; half < 2; ++half) {
    alignas(16) uint8_t raw[256];
    if (op.a_in_registers) {
      for (int chunk = 0; chunk < kWgmmaChunks; ++chunk) {
        std::memcpy(raw + 128 * chunk, op.a_registers[2 * chunk + half], 128);
      }
    } else {
      gather(w, i, op.a_matrix, op.transpose_a, kWgmmaChunks, (w.index % 4) * 2 + static_cast<uint32_t>(half), raw);
    }
    if (op.transpose_a) {
      pack_transposed_rows(op.a, raw, half, panel);
    } else {
      pack_rows(op.a, raw, half, panel);
    }
  }
  if (!op.negate) return;
  for (int k = 0; k < kWarpRows * kWgmmaChunks * chunk_elements(op.a); ++k) panel[k] = -panel[k];
}

void load_b(Warp& w, const Instr& i, const Wgmma& op, float* panel) {
  for (int group = 0; group < op.columns / 8; ++group) {
    alignas(16) uint8_t raw[128 * kSparseChunks];
    gather(w, i, op.b_matrix, op.transpose_b, op.b_chunks(), static_cast<uint32_t>(group), raw);
    if (op.transpose_b) {
      pack_transposed_columns(op.b, raw, op.b_chunks(), group, panel);
    } else {
      pack_columns(op.b, raw, op.b_chunks(), group, panel);
    }
  }
}

// The panel of B for this instruction: from another warp of the warpgroup, or converted now.
const float* shared_b(Warp& w, const Instr& i, const Wgmma& op) {
  Block& block = *w.block;
  if (!block.panels) block.panels = std::make_shared<PanelCache>();
  auto& groups = block.panels->groups;
  if (groups.size() <= w.index / 4) groups.resize(w.index / 4 + 1);
  PanelCache::Entry& entry = groups[w.index / 4][op.sequence % PanelCache::kDepth];
  const std::array<uint32_t, 3> at{block.x, block.y, block.z};
  if (entry.sequence != op.sequence || entry.descriptor != op.b_bits || entry.block != at) {
    entry.panel.resize(op.panel_floats());
    load_b(w, i, op, entry.panel.data());
    entry.sequence = op.sequence;
    entry.descriptor = op.b_bits;
    entry.block = at;
  }
  return entry.panel.data();
}

void multiply(Warp& w, const Instr& i, const Wgmma& op, const float* b) {
  alignas(64) float a[kWarpRows * kWgmmaChunks * 16];
  load_a(w, i, op, a);
  const int registers = op.columns / (op.accumulator == Accumulator::f16 ? 4 : 2);
  std::array<Lanes32, 128> d;
  for (int k = 0; k < registers; ++k) d[static_cast<size_t>(k)] = w.r32(i.ops[k]);
  multiply_panels({op.a, op.accumulator, op.saturate, op.fresh, op.columns / 8, op.sparse ? &op.kept : nullptr}, a, b, d.data());
}

bool descriptor(Warp& w, const Instr& i, uint32_t op, uint64_t& bits, MatrixDescriptor& matrix) {
  bits = w.r64(op)[0];
  matrix = MatrixDescriptor::unpack(bits);
  if (matrix.base_offset == 0) return true;
  report(w, i, Kind::illegal, 1,
         "matrix descriptor " + hex(bits) + " has base offset " + std::to_string(matrix.base_offset) +
             ": matrices must start at a multiple of their swizzle pattern here");
  return false;
}

bool issuable(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return false;
  if (w.block->warps.size() < (w.index / 4 + 1) * 4) {
    report(w, i, Kind::illegal, m, "wgmma.mma_async in a warpgroup of fewer than four warps");
    return false;
  }
  if (w.wgmma_fenced) return true;
  report(w, i, Kind::illegal, m, "wgmma.mma_async before any wgmma.fence: its registers may not be written yet");
  return false;
}

// Registers that other instructions wrote behind the last fence (found when the program was analysed).
void check_registers(Warp& w, const Instr& i, Mask m) {
  const Program& program = *w.launch().program;
  const auto pc = static_cast<size_t>(&i - program.code.data());
  if (!(program.flags[pc] & kUnfenced)) return;
  report(w, i, Kind::illegal, m,
         "wgmma.mma_async uses a register that was written behind the last wgmma.fence: it may not see the value");
}

// imm: format A, format B, accumulator, columns, A in registers, saturate, sparse; then the literals: selector where A is
// sparse, scale A, scale B, and the transpositions that the spelling has.
void decode_form(const Instr& i, Wgmma& op) {
  op.a = static_cast<Format>(i.imm[0]);
  op.b = static_cast<Format>(i.imm[1]);
  op.accumulator = static_cast<Accumulator>(i.imm[2]);
  op.columns = static_cast<int>(i.imm[3]);
  op.a_in_registers = i.imm[4] != 0;
  op.saturate = i.imm[5] != 0;
  op.sparse = i.imm[6] != 0;
  const int64_t* literal = i.imm + 7 + op.sparse;
  const int literals = i.imm_count - 7 - op.sparse;
  const bool transposable = literals >= 3;
  op.negate = literals >= 2 && literal[0] * literal[1] < 0;
  op.transpose_b = transposable && literal[literals - 1] != 0;
  op.transpose_a = transposable && !op.a_in_registers && literal[2] != 0;
}

// A row of 64 bytes of k lies in two patterns of 32 bytes, and no field of the descriptor says how far apart.
bool addressable(Warp& w, const Instr& i, const Wgmma& op) {
  if (!op.sparse || op.transpose_b || op.b_matrix.swizzle != Swizzle::b32) return true;
  report(w, i, Kind::illegal, 1, "K-major B with 32-byte swizzle in a sparse wgmma, which reads 64 bytes of k a row");
  return false;
}

// ops: D, A, B, metadata where A is sparse, scale D.
bool decode_operands(Warp& w, const Instr& i, Wgmma& op) {
  decode_form(i, op);
  const uint32_t* next = i.ops + op.columns / (op.accumulator == Accumulator::f16 ? 4 : 2);
  if (op.a_in_registers) {
    for (auto& copy : op.a_registers) std::memcpy(copy, w.r32(*next++), kSlotBytes);
  } else {
    uint64_t bits;
    if (!descriptor(w, i, *next++, bits, op.a_matrix)) return false;
  }
  if (!descriptor(w, i, *next++, op.b_bits, op.b_matrix) || !addressable(w, i, op)) return false;
  if (op.sparse &&
      !read_metadata(w, i, {op.a, kWgmmaChunks, static_cast<uint32_t>(i.imm[7]), false}, *next++, op.kept))
    return false;
  op.fresh = (w.pred(*next) & 1u) == 0;
  op.sequence = ++w.wgmma_issued;
  return true;
}

void watch_group(Probe& p, const MatrixDescriptor& matrix, bool transposed, int chunks, uint32_t group) {
  const auto steps = static_cast<uint32_t>(chunks);
  if (transposed) {
    for (uint32_t k = 0; k < 8 * steps; ++k) observe_chunk(p, matrix.column_chunk(group, k));
    return;
  }
  for (uint32_t row = 0; row < 8; ++row)
    for (uint32_t chunk = 0; chunk < steps; ++chunk) observe_chunk(p, matrix.row_chunk(8 * group + row, chunk));
}

// Each warp reads its own rows of A; the four share B, a quarter of it stands for each.
void watch_operands(Warp& w, const Instr& i, const Wgmma& op) {
  Probe p = begin_wgmma(w, i);
  const uint32_t rank = w.index % 4;
  if (!op.a_in_registers)
    for (uint32_t half = 0; half < 2; ++half) watch_group(p, op.a_matrix, op.transpose_a, kWgmmaChunks, 2 * rank + half);
  const uint32_t groups = static_cast<uint32_t>(op.columns) / 8;
  for (uint32_t group = rank; group < groups; group += 4)
    watch_group(p, op.b_matrix, op.transpose_b, op.b_chunks(), group);
}

Step mma_async(Warp& w, const Instr& i, Mask m) {
  if (!issuable(w, i, m)) return Step::fault;
  check_registers(w, i, m);
  Wgmma op;
  if (!decode_operands(w, i, op)) return Step::fault;
  if (w.block->observer && w.block->observer->race) watch_operands(w, i, op);
  if (!w.launch().lazy()) {
    multiply(w, i, op, shared_b(w, i, op));
    w.wgmma.add(m, {});
    return Step::next;
  }
  w.wgmma.add(m, [warp = &w, instr = &i, op](Mask) {
    std::vector<float> b(op.panel_floats());
    load_b(*warp, *instr, op, b.data());
    multiply(*warp, *instr, op, b.data());
  });
  return Step::next;
}

Step fence(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  w.wgmma_fenced = true;
  return Step::next;
}

constexpr const char* kGroup = "wgmma of the warpgroup";

// The four warps of a warpgroup issue one wgmma together: it is complete when it is for all of them.
template <class Visit>
void for_warpgroup(Warp& w, Visit visit) {
  const size_t first = w.index / 4 * 4;
  for (size_t k = first; k < std::min(first + 4, w.block->warps.size()); ++k) visit(w.block->warps[k]);
}

// Readies the warps of the group that wait for this one to issue.
void wake_warpgroup(Warp& w) {
  for_warpgroup(w, [](Warp& other) {
    for (Path& p : other.paths)
      if (p.state == Path::State::retry && p.wait.what == kGroup) p.state = Path::State::ready;
  });
}

Step commit(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  w.wgmma.commit(m);
  if (w.block->observer) observe_commit(w, Actor::wgmma);
  wake_warpgroup(w);
  return Step::next;
}

// Waits for all groups of the warpgroup but the newest, which no warp of it has committed twice.
Step wait_group(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const auto keep = static_cast<uint32_t>(i.imm[0]);
  const uint32_t own = w.wgmma.committed(0);
  const uint32_t number = own > keep ? own - keep : 0;
  bool issued = true;
  for_warpgroup(w, [&](Warp& other) { issued = issued && (other.wgmma.committed(0) >= number || warp_done(other)); });
  if (!issued) {
    w.wait_on = {kGroup, w.index / 4, number};
    return Step::retry;
  }
  for_warpgroup(w, [&](Warp& other) {
    if (other.wgmma.committed(0) < number) return;
    const uint32_t left = other.wgmma.committed(0) - number;
    other.wgmma.wait(kFull, left);
    if (w.block->observer) observe_wait_of(w, other, Actor::wgmma, left);
  });
  return Step::next;
}

}  // namespace

void register_wgmma(Registry& r) {
  r.add("wgmma.mma_async", mma_async);
  r.add("wgmma.fence", fence);
  r.add("wgmma.commit_group", commit);
  r.add("wgmma.wait_group", wait_group);
}

}  // namespace tilewright::vgpu
