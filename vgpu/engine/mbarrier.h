// Phase-counting barriers in shared memory. The eight bytes of the object hold its whole state.
#pragma once

#include "launch.h"

namespace tilewright::vgpu {

struct MBarrier {
  static constexpr uint32_t kMaxCount = (1u << 20) - 1;
  static constexpr int32_t kMaxTx = (1 << 20) - 1;

  uint32_t pending = 0;   // arrivals that the current phase still waits for
  uint32_t expected = 0;  // arrivals of every following phase
  int32_t tx = 0;         // bytes announced and not yet transferred; may be negative for a while
  uint32_t phase = 0;     // modulo 8: tells a waiter that two phases went by

  static MBarrier unpack(uint64_t state);
  uint64_t pack() const;
};

// Whether `address` names an initialised barrier (of any block of the cluster); reports what is wrong with it.
bool mbarrier_check(Warp& w, const Instr& i, int lane, uint32_t address);

// Effects on a checked barrier. They complete the phase when it is due and wake the waiters; misuse is reported
// against `i` for the block that owns the barrier. `mbarrier_arrive` returns whether the phase is complete.
bool mbarrier_arrive(Block& from, const Instr& i, uint32_t address, uint32_t count);
void mbarrier_announce(Block& from, const Instr& i, uint32_t address);  // one more arrival in this phase
void mbarrier_add_tx(Block& from, const Instr& i, uint32_t address, int64_t bytes);
// Lanes of one instruction arrive in no order, so that they must not fall into two phases.
void mbarrier_split_arrival(Block& from, const Instr& i, uint32_t address);

}  // namespace tilewright::vgpu
