// Reading a tensor map operand.
#pragma once

#include "launch.h"
#include "tensor_map.h"

namespace tilewright::vgpu {

// Copies the tensor map at a generic address (a kernel parameter, or memory). Reports and returns false when there is
// none or when its tensor is not legal memory.
bool load_tensor_map(Warp& w, const Instr& i, int lane, uint64_t address, TensorMapImage& map);

}  // namespace tilewright::vgpu
