// ldmatrix, stmatrix, movmatrix: 8x8 matrices of 16-bit elements between shared memory and fragment registers.
#include "collective.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

constexpr int kRowBytes = 16;
constexpr int kMatrixBytes = 8 * kRowBytes;

// A fragment register is the row-major matrix: lane 4r + t holds bytes 4t..4t+3 of row r.
void transpose(const void* from, void* to) {
  uint16_t in[64], out[64];
  std::memcpy(in, from, sizeof in);
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) out[8 * column + row] = in[8 * row + column];
  }
  std::memcpy(to, out, sizeof out);
}

// imm: matrices, transposed, generic; then the address's offset and base bytes. ops: registers, address.
Step ldmatrix(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const int matrices = static_cast<int>(i.imm[0]);
  const uint32_t base = i.ops[matrices];
  uint8_t loaded[4][kMatrixBytes];
  Pointers rows;
  for (int lane = 0; lane < 8 * matrices; ++lane) {
    uint32_t address;
    if (!shared_address(w, i, lane, base, i.imm[3], i.imm[4], i.imm[2] != 0, address)) return Step::fault;
    const uint8_t* row = shared_chunk(w, i, lane, address, Proxy::generic);
    if (!row) return Step::fault;
    rows.at[lane] = const_cast<uint8_t*>(row);
    std::memcpy(loaded[lane >> 3] + (lane & 7) * kRowBytes, row, kRowBytes);
  }
  if (w.block->observer) observe_rows(w, i, kFull >> (32 - 8 * matrices), rows, false);
  for (int matrix = 0; matrix < matrices; ++matrix) {
    if (i.imm[1]) {
      transpose(loaded[matrix], w.r32(i.ops[matrix]));
    } else {
      std::memcpy(w.r32(i.ops[matrix]), loaded[matrix], kMatrixBytes);
    }
  }
  return Step::next;
}

// imm as ldmatrix. ops: address, registers.
Step stmatrix(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  const int matrices = static_cast<int>(i.imm[0]);
  Pointers rows;
  for (int matrix = 0; matrix < matrices; ++matrix) {
    uint8_t stored[kMatrixBytes];
    if (i.imm[1]) {
      transpose(w.r32(i.ops[1 + matrix]), stored);
    } else {
      std::memcpy(stored, w.r32(i.ops[1 + matrix]), kMatrixBytes);
    }
    for (int row = 0; row < 8; ++row) {
      uint32_t address;
      const int lane = 8 * matrix + row;
      if (!shared_address(w, i, lane, i.ops[0], i.imm[3], i.imm[4], i.imm[2] != 0, address)) return Step::fault;
      uint8_t* target = shared_write(w, i, lane, address, kRowBytes, kRowBytes);
      if (!target) return Step::fault;
      rows.at[lane] = target;
      std::memcpy(target, stored + row * kRowBytes, kRowBytes);
    }
  }
  if (w.block->observer) observe_rows(w, i, kFull >> (32 - 8 * matrices), rows, true);
  return Step::next;
}

Step movmatrix(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  transpose(w.r32(i.ops[1]), w.r32(i.ops[0]));
  return Step::next;
}

}  // namespace

void register_ldmatrix(Registry& r) {
  r.add("ldmatrix", ldmatrix);
  r.add("stmatrix", stmatrix);
  r.add("movmatrix", movmatrix);
}

}  // namespace tilewright::vgpu
