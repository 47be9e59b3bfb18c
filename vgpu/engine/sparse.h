// Sparse operands A: which elements of a row are kept (PTX ISA, "Sparse matrix storage"), and products with them.
#pragma once

#include "matrix_tile.h"

namespace tilewright::vgpu {

// The k of every kept element of a warp's 16 rows.
struct Kept {
  uint8_t k[16][kMaxDepth];
};

struct MetadataShape {
  Format format;
  int chunks;        // 16-byte steps of kept elements in a row: 1 or 2
  uint32_t selector;  // which lanes of a quad hold the metadata
  bool ordered;      // indices must ascend
};

// words: the metadata register of 32 lanes. The lane whose metadata the ISA calls invalid, or -1.
int unpack_metadata(const MetadataShape& shape, const uint32_t* words, Kept& kept);

// out[16][width] = sum over the kept elements of a * b. a: [chunks][16][elements], b: [2 * chunks * elements][width].
template <int width>
TILEWRIGHT_INLINE void multiply_kept(const float* a, int elements, int chunks, const float* b, const Kept& kept,
                                    float* out) {
  using Vector = typename Lanes<width>::Vector;
  for (int row = 0; row < 16; ++row) {
    Vector sum = {};
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const float* line = a + (chunk * 16 + row) * elements;
      const uint8_t* k = kept.k[row] + chunk * elements;
      for (int e = 0; e < elements; ++e) sum += *reinterpret_cast<const Vector*>(b + k[e] * width) * line[e];
    }
    *reinterpret_cast<Vector*>(out + row * width) = sum;
  }
}

}  // namespace tilewright::vgpu
