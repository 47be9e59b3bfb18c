// Bank conflicts, sectors and bytes of memory accesses.
#pragma once

#include "observe.h"

namespace tilewright::vgpu {

Tally& tally_of(Observer& o, const Warp& w, const Instr& i);
// An access of `bytes` a lane to whatever each pointer lies in.
void count_access(Observer& o, Warp& w, Tally& t, Mask m, uint8_t* const* at, uint32_t bytes);
void count_copy(Observer& o, Warp& w, const Instr& i, Mask m, const uint32_t* target, const uint8_t* const* source,
                const uint8_t* read, uint32_t size);
// A contiguous piece of global memory that a bulk copy reads or writes (or of shared memory: only its bytes).
void count_bulk(Observer& o, Warp& w, const Instr& i, const uint8_t* at, uint64_t bytes);

}  // namespace tilewright::vgpu
