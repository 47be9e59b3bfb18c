// Instructions that all threads of a warp execute together, and addresses of matrix rows in shared memory.
#pragma once

#include <cstring>

#include "launch.h"
#include "sparse.h"

namespace tilewright::vgpu {

// `.aligned` instructions: reports and returns false unless all 32 lanes take part.
inline bool whole_warp(Warp& w, const Instr& i, Mask m) {
  if (m == kFull) return true;
  report(w, i, Kind::illegal, ~m, "an instruction that all 32 threads of a warp execute together ran without some");
  return false;
}

// The shared address that a lane's operand names. `base_bytes` 8: the register is 64 bits wide and, when `generic`,
// holds a generic address. Returns false (reported) when that address is not in shared memory.
inline bool shared_address(Warp& w, const Instr& i, int lane, uint32_t op, int64_t offset, int64_t base_bytes,
                           bool generic, uint32_t& address) {
  if (base_bytes == 4) {
    address = w.r32(op)[lane] + static_cast<uint32_t>(offset);
    return true;
  }
  const uint64_t wide = w.r64(op)[lane] + static_cast<uint64_t>(offset);
  address = static_cast<uint32_t>(wide);
  if (!generic || window_of(wide) == Window::shared) return true;
  report(w, i, Kind::out_of_bounds, 1u << lane, "generic address " + hex(wide) + " is not in shared memory");
  return false;
}

// Whether 16 shared bytes are written and, for the async proxy, fenced.
inline bool chunk_ready(const uint8_t* shadow, Proxy proxy) {
  constexpr uint64_t kOnes = 0x0101010101010101ull;
  const uint64_t wanted = proxy == Proxy::async ? kOnes * (kWritten | kDirty) : kOnes * kWritten;
  uint64_t state[2];
  std::memcpy(state, shadow, 16);
  return (state[0] & wanted) == kOnes * kWritten && (state[1] & wanted) == kOnes * kWritten;
}

// 16 readable bytes at an own-block shared address, checked like shared_read; nullptr after a fault.
inline const uint8_t* shared_chunk(Warp& w, const Instr& i, int lane, uint32_t address, Proxy proxy) {
  Block& block = *w.block;
  if ((address & 15u) == 0 && address + 16ull <= block.smem.size() &&
      (block.shadow.empty() || chunk_ready(&block.shadow[address], proxy))) {
    return &block.smem[address];
  }
  return shared_read(w, i, lane, address, 16, 16, proxy);
}

// Which elements of A are kept, from the lanes of a metadata register; false after a fault (mma_sparse.cpp).
bool read_metadata(Warp& w, const Instr& i, const MetadataShape& shape, uint32_t op, Kept& kept);

}  // namespace tilewright::vgpu
