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
  uint8_t im2col;  // then the box is channels and pixels, and the corners bound the walk of the pixels
  int16_t lower[kMaxRank - 2];  // of dimensions 1 to rank - 2
  int16_t upper[kMaxRank - 2];

  uint32_t element_bytes() const { return static_cast<uint32_t>(strides[0]); }

  // Elements of the tile in shared memory along a dimension; the innermost one ignores its element stride.
  uint32_t tile(int dim) const {
    const uint32_t step = dim == 0 ? 1u : element_strides[dim];
    return (box[dim] + step - 1) / step;
  }

  uint32_t tile_bytes() const {
    uint32_t bytes = element_bytes();
    if (im2col) return bytes * box[0] * box[1];
    for (int dim = 0; dim < rank; ++dim) bytes *= tile(dim);
    return bytes;
  }

  // Whether the fields are those of a map that vgpu/tensor_map.py made: a kernel may have written over them.
  bool sound() const {
    const uint64_t element = strides[0];
    if (rank < 1 || rank > kMaxRank || swizzle > 3 || (element != 1 && element != 2 && element != 4 && element != 8))
      return false;
    if (im2col && (rank < 3 || box[1] > 1024)) return false;
    uint64_t bytes = element;
    for (int dim = 0; dim < rank; ++dim) {
      if (box[dim] < 1 || (box[dim] > 256 && !im2col) || element_strides[dim] < 1 || element_strides[dim] > 8)
        return false;
      if (dims[dim] < 1 || dims[dim] > (uint64_t{1} << 32) || strides[dim] >= (uint64_t{1} << 40)) return false;
      bytes *= im2col ? 1 : tile(dim);
    }
    return (im2col ? tile_bytes() : bytes) <= 232448 && box[0] <= 256;
  }

  uint64_t extent() const {  // bytes from the base to the end of the last element
    uint64_t bytes = strides[0];
    for (int dim = 0; dim < rank; ++dim) bytes += (dims[dim] - 1) * strides[dim];
    return bytes;
  }
};
static_assert(sizeof(TensorMapImage) == 128, "the image fills a CUtensorMap");

// Where an instruction finds its tile: the first element, and for im2col what it adds to the place of each pixel.
struct TilePlace {
  int32_t at[kMaxRank];
  uint16_t offset[kMaxRank - 2];
};

// One innermost row of a tile: where it starts in the packed tile, its elements that lie in the tensor, and the
// global address of the first of those.
struct TileRow {
  uint32_t tile_offset;
  uint32_t first, last;  // [first, last) elements
  uint64_t global;
};

// Calls visit(TileRow) for the channels of every pixel from `place` on (PTX ISA, "im2col mode"): the walk goes through
// the bounding box from its lower to its upper corner, dimension 1 fastest, and then to the next image.
template <typename Visit>
void for_pixel_rows(const TensorMapImage& map, const TilePlace& place, Visit visit) {
  const int last_dim = map.rank - 1;
  const int64_t width = map.box[0];
  const int64_t first = std::clamp<int64_t>(-int64_t{place.at[0]}, 0, width);
  const int64_t last = std::clamp<int64_t>(static_cast<int64_t>(map.dims[0]) - place.at[0], first, width);
  int64_t pixel[kMaxRank];
  for (int dim = 1; dim < map.rank; ++dim) pixel[dim] = place.at[dim];
  for (uint32_t number = 0; number < map.box[1]; ++number) {
    bool inside = true;
    uint64_t global = map.base + static_cast<uint64_t>((place.at[0] + first) * map.element_bytes());
    for (int dim = 1; dim < map.rank; ++dim) {
      const int64_t where = pixel[dim] + (dim < last_dim ? place.offset[dim - 1] : 0);
      inside = inside && where >= 0 && where < static_cast<int64_t>(map.dims[dim]);
      global += static_cast<uint64_t>(where) * map.strides[dim];
    }
    const auto offset = static_cast<uint32_t>(number * width * map.element_bytes());
    visit(TileRow{offset, static_cast<uint32_t>(first), static_cast<uint32_t>(inside ? last : first), global});
    int dim = 1;
    for (; dim < last_dim; ++dim) {
      pixel[dim] += map.element_strides[dim];
      if (pixel[dim] < static_cast<int64_t>(map.dims[dim]) + map.upper[dim - 1]) break;
      pixel[dim] = map.lower[dim - 1];
    }
    if (dim == last_dim) ++pixel[dim];
  }
}

// Calls visit(TileRow) for every innermost row of the tile at `place`, in shared memory order.
template <typename Visit>
void for_tile_rows(const TensorMapImage& map, const TilePlace& place, Visit visit) {
  if (map.im2col) return for_pixel_rows(map, place, visit);
  const int32_t* at = place.at;
  const int64_t width = map.tile(0);
  const int64_t first = std::clamp<int64_t>(-int64_t{at[0]}, 0, width);
  const int64_t last = std::clamp<int64_t>(static_cast<int64_t>(map.dims[0]) - at[0], first, width);
  uint32_t index[kMaxRank] = {};
  for (uint32_t offset = 0;; offset += static_cast<uint32_t>(width) * map.element_bytes()) {
    bool inside = true;
    uint64_t global = map.base + static_cast<uint64_t>((at[0] + first) * map.element_bytes());
    for (int dim = 1; dim < map.rank; ++dim) {
      const int64_t where = at[dim] + int64_t{index[dim]} * map.element_strides[dim];
      inside = inside && where >= 0 && where < static_cast<int64_t>(map.dims[dim]);
      global += static_cast<uint64_t>(where) * map.strides[dim];
    }
    visit(TileRow{offset, static_cast<uint32_t>(first), static_cast<uint32_t>(inside ? last : first), global});
    int dim = 1;
    while (dim < map.rank && ++index[dim] == map.tile(dim)) index[dim++] = 0;
    if (dim >= map.rank) return;
  }
}

// Fills the tile at shared memory `smem` + `address` from the tensor; elements outside become zero or NaN.
void load_tile(const TensorMapImage& map, const TilePlace& place, uint8_t* smem, uint32_t address);

// Gathers the tile from shared memory without its swizzle, packed, into `packed` (tile_bytes() long).
void unswizzle_tile(const TensorMapImage& map, const uint8_t* smem, uint32_t address, uint8_t* packed);

}  // namespace tilewright::vgpu
