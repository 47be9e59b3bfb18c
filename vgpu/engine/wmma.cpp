// wmma.load, wmma.store and wmma.mma. The ISA leaves the layout of fragments open; here they are those of mma: pieces of
// eight lines and 16 bytes (accumulators: eight columns), lane 4g + t having line g of each.
#include <cstring>

#include "collective.h"
#include "mma_math.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

// A fragment in memory. A register holds `per` elements of line x + g: y + step * t and those behind it.
struct Fragment {
  int registers, copies;  // different ones, and how often the operand repeats them
  int per, step, bits;
  bool contiguous;         // y runs through memory and x by the stride, else the other way round
  int64_t stride;          // elements
  const int64_t* origins;  // x, y of each register
  bool wide;               // 64-bit registers

  int64_t offset(int reg, int lane, int element) const {  // bytes
    const int64_t x = origins[2 * reg] + lane / 4, y = origins[2 * reg + 1] + step * (lane % 4) + element;
    return (contiguous ? x * stride + y : y * stride + x) * bits / 8;
  }
};

// imm: registers, copies, elements a register, step, bits, contiguous, alignment in bytes, default stride, origins; then
// the address's offset and base bytes.
constexpr int kOrigins = 8;

struct Access {
  Fragment fragment;
  uint64_t address;
};

// All lanes name the same matrix.
bool prepare(Warp& w, const Instr& i, uint32_t base, const uint32_t* stride, Access& out) {
  Fragment& f = out.fragment;
  f = {static_cast<int>(i.imm[0]), static_cast<int>(i.imm[1]), static_cast<int>(i.imm[2]), static_cast<int>(i.imm[3]),
       static_cast<int>(i.imm[4]), i.imm[5] != 0, i.imm[7], i.imm + kOrigins, i.imm[4] == 64};
  const int64_t* tail = i.imm + kOrigins + 2 * f.registers;
  uint64_t address[kLanes];
  addresses(w, base, tail[0], tail[1], address);
  const uint32_t* steps = stride ? w.r32(*stride) : nullptr;
  Mask other = 0;
  for (int lane = 1; lane < kLanes; ++lane)
    if (address[lane] != address[0] || (steps && steps[lane] != steps[0])) other |= 1u << lane;
  if (other) {
    report(w, i, Kind::illegal, other, "the threads of the warp name different matrices: address or stride differ");
    return false;
  }
  if (steps) f.stride = static_cast<int32_t>(steps[0]);
  out.address = address[0];
  const auto alignment = static_cast<uint64_t>(i.imm[6]);
  if (out.address % alignment == 0 && static_cast<uint64_t>(f.stride * f.bits / 8) % alignment == 0 &&
      f.stride * f.bits % 8 == 0)
    return true;
  report(w, i, Kind::misaligned, kFull,
         "matrix at " + hex(out.address) + " with lines " + std::to_string(f.stride) + " elements apart: both must be multiples of " +
             std::to_string(alignment) + " bytes");
  return false;
}

// Calls visit(register, element, bytes, pointers) for each access that the warp makes.
template <class Visit>
bool for_accesses(Warp& w, const Instr& i, Space space, const Access& access, bool write, Visit visit) {
  const Fragment& f = access.fragment;
  const bool pieces = !f.contiguous && f.per > 1;
  const uint32_t bytes = pieces ? static_cast<uint32_t>(f.bits / 8) : f.wide ? 8u : 4u;
  for (int reg = 0; reg < f.registers; ++reg) {
    for (int element = 0; element < (pieces ? f.per : 1); ++element) {
      uint64_t address[kLanes];
      for (int lane = 0; lane < kLanes; ++lane)
        address[lane] = access.address + static_cast<uint64_t>(f.offset(reg, lane, element));
      Pointers p;
      if (!locate(w, i, kFull, space, address, bytes, write, p)) return false;
      visit(reg, element, bytes, p);
    }
  }
  return true;
}

// ops: registers, address, stride.
template <Space kSpace>
Step load(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const int total = static_cast<int>(i.imm[0] * i.imm[1]);
  Access access;
  if (!prepare(w, i, i.ops[total], i.op_count > total + 1 ? i.ops + total + 1 : nullptr, access)) return Step::fault;
  const Fragment& f = access.fragment;
  uint64_t loaded[8][kLanes] = {};
  const bool done = for_accesses(w, i, kSpace, access, false, [&](int reg, int element, uint32_t bytes, const Pointers& p) {
    if (w.block->observer) observe_load(w, i, kFull, p, bytes);
    for (int lane = 0; lane < kLanes; ++lane) {
      uint64_t value = 0;
      std::memcpy(&value, p.at[lane], bytes);
      loaded[reg][lane] |= value << element * f.bits;
    }
    if (w.block->observer) observed_load(w, i, kFull, p);
  });
  if (!done) return Step::fault;
  for (int k = 0; k < total; ++k) {
    const uint64_t* from = loaded[k % f.registers];
    if (f.wide) std::memcpy(w.r64(i.ops[k]), from, sizeof loaded[0]);
    else
      for (int lane = 0; lane < kLanes; ++lane) w.r32(i.ops[k])[lane] = static_cast<uint32_t>(from[lane]);
  }
  return Step::next;
}

// ops: address, registers, stride.
template <Space kSpace>
Step store(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const int total = static_cast<int>(i.imm[0]);
  Access access;
  if (!prepare(w, i, i.ops[0], i.op_count > total + 1 ? i.ops + total + 1 : nullptr, access)) return Step::fault;
  const Fragment& f = access.fragment;
  const bool done = for_accesses(w, i, kSpace, access, true, [&](int reg, int element, uint32_t bytes, const Pointers& p) {
    const uint32_t* op = i.ops + 1 + reg;
    if (w.block->observer) observe_store(w, i, kFull, p, bytes, {op, bytes, f.wide});
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t value = (f.wide ? w.r64(*op)[lane] : w.r32(*op)[lane]) >> element * f.bits;
      std::memcpy(p.at[lane], &value, bytes);
    }
  });
  return done ? Step::next : Step::fault;
}

// imm of mma: formats of A and B, integer accumulators, chunks of k, saturate, rows, columns, registers of A and of B,
// C in f16, D in f16.
struct Product {
  MmaShape shape;
  int rows, columns, a_registers, b_registers;
  bool c_half, d_half;

  explicit Product(const Instr& i)
      : shape{static_cast<Format>(i.imm[0]), static_cast<Format>(i.imm[1]),
              i.imm[2] ? Accumulator::s32 : i.imm[9] && i.imm[10] ? Accumulator::f16 : Accumulator::f32,
              static_cast<uint8_t>(i.imm[3]), i.imm[4] != 0},
        rows(static_cast<int>(i.imm[5])),
        columns(static_cast<int>(i.imm[6])),
        a_registers(static_cast<int>(i.imm[7])),
        b_registers(static_cast<int>(i.imm[8])),
        c_half(i.imm[9] != 0),
        d_half(i.imm[10] != 0) {}

  int halves() const { return rows == 8 ? 1 : 2; }  // pieces of eight rows in a tile
  // Accumulator registers of a tile.
  int per_tile(bool half) const { return halves() * (half ? 1 : 2); }
  int tiles() const { return rows * columns / (halves() * 64); }
};

alignas(64) const uint32_t kNothing[kLanes] = {};

// Two columns a register to one, and back.
void widen(const ConstLanes32* from, int registers, uint32_t (*to)[kLanes]) {
  for (int k = 0; k < registers; ++k)
    for (int lane = 0; lane < kLanes; ++lane) {
      to[2 * k][lane] = bits_of_float(float_of_half(static_cast<uint16_t>(from[k][lane])));
      to[2 * k + 1][lane] = bits_of_float(float_of_half(static_cast<uint16_t>(from[k][lane] >> 16)));
    }
}
void narrow(const uint32_t (*from)[kLanes], int registers, uint32_t (*to)[kLanes]) {
  for (int k = 0; k < registers; ++k)
    for (int lane = 0; lane < kLanes; ++lane)
      to[k][lane] = half_of_float(float_of_bits(from[2 * k][lane])) |
                    uint32_t{half_of_float(float_of_bits(from[2 * k + 1][lane]))} << 16;
}

// One tile of at most 16 rows and eight columns. c: its registers; d: where its results go.
void multiply_tile_of(const Product& p, const ConstLanes32* a, const ConstLanes32* b, const ConstLanes32* c,
                      uint32_t (*d)[kLanes]) {
  alignas(64) uint32_t old[4][kLanes], sums[4][kLanes];
  ConstLanes32 tile_a[4], tile_c[4] = {kNothing, kNothing, kNothing, kNothing};
  const int halves = p.halves();
  for (int k = 0; k < 2 * p.shape.chunks; ++k) {
    if (halves == 2) tile_a[k] = a[k];
    else tile_a[k] = k % 2 ? kNothing : a[k / 2];
  }
  const bool half = p.shape.accumulator == Accumulator::f16;
  if (p.c_half && !half) {
    widen(c, halves, old);
    for (int k = 0; k < 2 * halves; ++k) tile_c[k] = old[k];
  } else {
    for (int k = 0; k < p.per_tile(half); ++k) tile_c[k] = c[k];
  }
  const Lanes32 tile_d[4] = {sums[0], sums[1], sums[2], sums[3]};
  mma_m16n8(p.shape, tile_a, b, tile_c, tile_d);
  if (p.d_half && !half) narrow(sums, halves, d);
  else std::memcpy(d, sums, sizeof sums[0] * static_cast<size_t>(p.per_tile(half)));
}

// ops: D, A, B, C.
Step multiply(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const Product p(i);
  const int d_registers = p.tiles() * p.per_tile(p.d_half), c_registers = p.tiles() * p.per_tile(p.c_half);
  const uint32_t* op = i.ops + d_registers;
  ConstLanes32 a[8], b[8], c[8];
  for (int k = 0; k < p.a_registers; ++k) a[k] = w.r32(*op++);
  for (int k = 0; k < p.b_registers; ++k) b[k] = w.r32(*op++);
  for (int k = 0; k < c_registers; ++k) c[k] = w.r32(*op++);
  uint32_t out[8][kLanes];
  const int groups = p.columns / 8;
  for (int tile = 0; tile < p.tiles(); ++tile) {
    multiply_tile_of(p, a + tile / groups * p.halves() * p.shape.chunks, b + tile % groups * p.shape.chunks,
                     c + tile * p.per_tile(p.c_half), out + tile * p.per_tile(p.d_half));
  }
  for (int k = 0; k < d_registers; ++k) std::memcpy(w.r32(i.ops[k]), out[k], sizeof out[k]);
  return Step::next;
}

}  // namespace

void register_wmma(Registry& r) {
  r.add("wmma.load.global", load<Space::global>);
  r.add("wmma.load.shared", load<Space::shared>);
  r.add("wmma.load.generic", load<Space::generic>);
  r.add("wmma.store.global", store<Space::global>);
  r.add("wmma.store.shared", store<Space::shared>);
  r.add("wmma.store.generic", store<Space::generic>);
  r.add("wmma.mma", multiply);
}

}  // namespace tilewright::vgpu
