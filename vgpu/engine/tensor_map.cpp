#include "tensor_map.h"

namespace tilewright::vgpu {
namespace {

constexpr uint32_t kUnit = 16;
constexpr uint32_t kMaxRowBytes = 256 * 8;

void fill_outside(const TensorMapImage& map, uint8_t* row, uint32_t bytes) {
  if (!map.nan_fill) {
    std::memset(row, 0, bytes);
    return;
  }
  // All ones but the sign: a NaN in every format.
  std::memset(row, 0xff, bytes);
  for (uint32_t k = map.element_bytes() - 1; k < bytes; k += map.element_bytes()) row[k] = 0x7f;
}

void scatter_row(const uint8_t* row, uint32_t bytes, Swizzle swizzle, uint8_t* smem, uint32_t address) {
  if (swizzle == Swizzle::none) {
    std::memcpy(smem + address, row, bytes);
    return;
  }
  for (uint32_t k = 0; k < bytes; k += kUnit) std::memcpy(smem + swizzle_address(address + k, swizzle), row + k, kUnit);
}

}  // namespace

void load_tile(const TensorMapImage& map, const TilePlace& place, uint8_t* smem, uint32_t address) {
  const auto swizzle = static_cast<Swizzle>(map.swizzle);
  const uint32_t width = map.box[0], bytes = width * map.element_bytes();
  for_tile_rows(map, place, [&](const TileRow& row) {
    const auto* source = reinterpret_cast<const uint8_t*>(row.global);
    if (row.last - row.first == width) {
      scatter_row(source, bytes, swizzle, smem, address + row.tile_offset);
      return;
    }
    uint8_t edge[kMaxRowBytes];
    fill_outside(map, edge, bytes);
    if (row.last > row.first) {
      std::memcpy(edge + row.first * map.element_bytes(), source, (row.last - row.first) * map.element_bytes());
    }
    scatter_row(edge, bytes, swizzle, smem, address + row.tile_offset);
  });
}

void unswizzle_tile(const TensorMapImage& map, const uint8_t* smem, uint32_t address, uint8_t* packed) {
  const auto swizzle = static_cast<Swizzle>(map.swizzle);
  const uint32_t bytes = map.tile_bytes();
  for (uint32_t k = 0; k < bytes; k += kUnit) {
    std::memcpy(packed + k, smem + swizzle_address(address + k, swizzle), std::min(kUnit, bytes - k));
  }
}

}  // namespace tilewright::vgpu
