// Special registers and the start state of a block.
#pragma once

#include "launch.h"
#include "program.h"

namespace tilewright::vgpu {

// Numbers of the special registers that are constant for a thread; the Python encoder uses the same (bindings export them).
const std::vector<std::string>& special_names();
// Sets up block `rank` of cluster `unit` with all registers, shared memory and warps as at the first instruction.
void start_block(Launch& launch, Block& b, uint64_t unit, uint32_t rank);

}  // namespace tilewright::vgpu
