// Tensor maps: the tiled view of global memory that TMA instructions name, and copies between it and shared memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "swizzle.h"

namespace tilewright::vgpu {

constexpr int kMaxRank = 5;

// The 128 bytes behind a tensor map's address, as vgpu/tensor_map.py packs them. Dimensions innermost first.
struct TensorMapImage {
  static constexpr uint64_t kMagic = 0x70616d5f77656974ull;

  uint64_t magic;
  uint64_t base;
  uint64_t dims[kMaxRank];
  uint64_t strides[kMaxRank];  // bytes; the first is the element size
  uint16_t box[kMaxRank];
  uint8_t element_strides[kMaxRank];
  uint8_t rank;
  uint8_t type;  // CUtensorMapDataType
  uint8_t swizzle;
  uint8_t nan_fill;
  uint8_t padding[13];

  uint32_t element_bytes() const { return static_cast<uint32_t>(strides[0]); }

  // Elements of the tile in shared memory along a dimension; the innermost one ignores its element stride.
  uint32_t tile(int dim) const {
    const uint32_t step = dim == 0 ? 1u : element_strides[dim];
    return (box[dim] + step - 1) / step;
  }

  uint32_t tile_bytes() const {
    uint32_t bytes = element_bytes();
    for (int dim = 0; dim < rank; ++dim) bytes *= tile(dim);
    return bytes;
  }

  // Whether the fields are those of a map that vgpu/tensor_map.py made: a kernel may have written over them.
  bool sound() const {
    const uint64_t element = strides[0];
    if (rank < 1 || rank > kMaxRank || swizzle > 3 || (element != 1 && element != 2 && element != 4 && element != 8))
      return false;
    uint64_t bytes = element;
    for (int dim = 0; dim < rank; ++dim) {
      if (box[dim] < 1 || box[dim] > 256 || element_strides[dim] < 1 || element_strides[dim] > 8) return false;
      if (dims[dim] < 1 || dims[dim] > (uint64_t{1} << 32) || strides[dim] >= (uint64_t{1} << 40)) return false;
      bytes *= tile(dim);
    }
    return bytes <= 232448;
  }

  uint64_t extent() const {  // bytes from the base to the end of the last element
    uint64_t bytes = strides[0];
    for (int dim = 0; dim < rank; ++dim) bytes += (dims[dim] - 1) * strides[dim];
    return bytes;
  }
};
static_assert(sizeof(TensorMapImage) == 128, "the image fills a CUtensorMap");

// One innermost row of a tile: where it starts in the packed tile, its elements that lie in the tensor, and the
// global address of the first of those.
struct TileRow {
  uint32_t tile_offset;
  uint32_t first, last;  // [first, last) elements
  uint64_t global;
};

// Calls visit(TileRow) for every innermost row of the tile at `at`, in shared memory order.
template <typename Visit>
void for_tile_rows(const TensorMapImage& map, const int32_t* at, Visit visit) {
  const int64_t width = map.tile(0);
  const int64_t first = std::clamp<int64_t>(-int64_t{at[0]}, 0, width);
  const int64_t last = std::clamp<int64_t>(static_cast<int64_t>(map.dims[0]) - at[0], first, width);
  uint32_t index[kMaxRank] = {};
  for (uint32_t offset = 0;; offset += static_cast<uint32_t>(width) * map.element_bytes()) {
    bool inside = true;
    uint64_t global = map.base + static_cast<uint64_t>((at[0] + first) * map.element_bytes());
    for (int dim = 1; dim < map.rank; ++dim) {
      const int64_t place = at[dim] + int64_t{index[dim]} * map.element_strides[dim];
      inside = inside && place >= 0 && place < static_cast<int64_t>(map.dims[dim]);
      global += static_cast<uint64_t>(place) * map.strides[dim];
    }
    visit(TileRow{offset, static_cast<uint32_t>(first), static_cast<uint32_t>(inside ? last : first), global});
    int dim = 1;
    while (dim < map.rank && ++index[dim] == map.tile(dim)) index[dim++] = 0;
    if (dim >= map.rank) return;
  }
}

// Fills the tile at shared memory `smem` + `address` from the tensor; elements outside become zero or NaN.
void load_tile(const TensorMapImage& map, const int32_t* at, uint8_t* smem, uint32_t address);

// Gathers the tile from shared memory without its swizzle, packed, into `packed` (tile_bytes() long).
void unswizzle_tile(const TensorMapImage& map, const uint8_t* smem, uint32_t address, uint8_t* packed);

}  // namespace tilewright::vgpu
