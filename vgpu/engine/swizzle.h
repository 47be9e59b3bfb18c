// Shared memory layouts of TMA tiles and wgmma operands.
#pragma once

#include <cstdint>

namespace tilewright::vgpu {

// Numbers as in CUtensorMapSwizzle.
enum class Swizzle : uint8_t { none, b32, b64, b128 };

constexpr uint32_t swizzle_span(Swizzle swizzle) {  // bytes of a row of the pattern
  return swizzle == Swizzle::none ? 16 : 16u << static_cast<int>(swizzle);
}

// The 16-byte unit within its row is XORed with the number of the 128-byte line, on absolute shared addresses: the
// pattern repeats every 256, 512 or 1024 bytes.
constexpr uint32_t swizzle_address(uint32_t address, Swizzle swizzle) {
  constexpr uint32_t kUnits[4] = {0, 1, 3, 7};
  return address ^ ((address >> 7 & kUnits[static_cast<int>(swizzle)]) << 4);
}

// A wgmma matrix descriptor (PTX ISA, "Matrix descriptor format"); offsets in bytes.
struct MatrixDescriptor {
  uint32_t start = 0;
  uint32_t leading = 0;
  uint32_t stride = 0;
  uint32_t base_offset = 0;
  Swizzle swizzle = Swizzle::none;

  static constexpr MatrixDescriptor unpack(uint64_t bits) {
    constexpr Swizzle kModes[4] = {Swizzle::none, Swizzle::b128, Swizzle::b64, Swizzle::b32};
    const auto field = [bits](int shift) { return static_cast<uint32_t>(bits >> shift & 0x3fff) << 4; };
    return {field(0), field(16), field(32), static_cast<uint32_t>(bits >> 49 & 7), kModes[bits >> 62]};
  }

  // K-major: address of 16 bytes of k in row `row`; `chunk` counts 16-byte steps of k.
  constexpr uint32_t row_chunk(uint32_t row, uint32_t chunk) const {
    const uint32_t group = start + (row >> 3) * stride;
    if (swizzle == Swizzle::none) return group + (row & 7) * 16 + chunk * leading;
    return swizzle_address(group + (row & 7) * swizzle_span(swizzle) + chunk * 16, swizzle);
  }

  // MN-major, 16-bit elements: address of the eight elements from row 8 * `group` at depth `k`.
  constexpr uint32_t column_chunk(uint32_t group, uint32_t k) const {
    if (swizzle == Swizzle::none) return start + group * stride + (k >> 3) * leading + (k & 7) * 16;
    const uint32_t span = swizzle_span(swizzle), units = span / 16;
    const uint32_t line = start + group / units * leading + (k >> 3) * stride + (k & 7) * span;
    return swizzle_address(line + group % units * 16, swizzle);
  }
};

}  // namespace tilewright::vgpu
