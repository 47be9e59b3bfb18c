// Effective addresses of a warp's lanes and the pointers behind them, checked.
#pragma once

#include "launch.h"

namespace tilewright::vgpu {

enum class Space : uint8_t { global, shared, local, param, generic };

struct Pointers {
  uint8_t* at[kLanes];
};

// Fills the addresses base + offset of the active lanes.
inline void addresses(const Warp& w, uint32_t op, int64_t offset, int64_t base_bytes, uint64_t* out) {
  if (base_bytes == 8) {
    const uint64_t* base = w.r64(op);
    for (int l = 0; l < kLanes; ++l) out[l] = base[l] + static_cast<uint64_t>(offset);
  } else {
    const uint32_t* base = w.r32(op);
    for (int l = 0; l < kLanes; ++l) out[l] = base[l] + static_cast<uint32_t>(offset);
  }
}

// Pointers to `bytes` legal, aligned bytes for every active lane; false after a reported fault.
bool locate(Warp& w, const Instr& i, Mask m, Space space, const uint64_t* address, uint32_t bytes, bool write,
            Pointers& out);

}  // namespace tilewright::vgpu
