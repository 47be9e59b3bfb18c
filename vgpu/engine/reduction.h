// Element-wise reductions into global memory, atomic per element as the hardware's are.
#pragma once

#include <cstdint>

namespace tilewright::vgpu {

enum class Reduction : uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };
enum class ReductionType : uint8_t { u32, s32, u64, s64, f32, f64, f16, bf16 };

uint32_t reduction_bytes(ReductionType type);

// target[k] = target[k] op source[k] for `count` elements. Returns false when the type has no such operation.
bool reduce_into(Reduction operation, ReductionType type, void* target, const void* source, uint32_t count);

}  // namespace tilewright::vgpu
