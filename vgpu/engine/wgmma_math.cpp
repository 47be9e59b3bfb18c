#include "wgmma_math.h"

namespace tilewright::vgpu {
namespace {

constexpr int kDepth16 = 16;  // k of A with 16-bit elements, the only transposed ones

// Where column group `group` starts in a panel of B.
TILEWRIGHT_INLINE float* group_start(float* panel, int group, int depth) {
  return panel + (group >> 1) * depth * 16 + (group & 1) * 8;
}

template <int elements>
TILEWRIGHT_INLINE void product_tile(const float* a, const float* b, float* tile) {
  multiply_tile<16, elements>(a, b, kWgmmaChunks, tile);
}

TILEWRIGHT_INLINE void any_product_tile(int elements, const float* a, const float* b, float* tile) {
  switch (elements) {
    case 4: return product_tile<4>(a, b, tile);
    case 8: return product_tile<8>(a, b, tile);
    default: return product_tile<16>(a, b, tile);
  }
}

}  // namespace

TILEWRIGHT_CLONES void pack_rows(Format format, const uint8_t* raw, int half, float* panel) {
  const int elements = chunk_elements(format);
  for (int chunk = 0; chunk < kWgmmaChunks; ++chunk) {
    decode_any(format, raw + chunk * 128, 8, panel + (chunk * 16 + half * 8) * elements);
  }
}

TILEWRIGHT_CLONES void pack_transposed_rows(Format format, const uint8_t* raw, int half, float* panel) {
  float values[kDepth16 * 8];
  decode_any(format, raw, kDepth16, values);
  for (int k = 0; k < kDepth16; ++k) {
    float* column = panel + ((k >> 3) * 16 + half * 8) * 8 + (k & 7);
    for (int row = 0; row < 8; ++row) column[row * 8] = values[k * 8 + row];
  }
}

TILEWRIGHT_CLONES void pack_columns(Format format, const uint8_t* raw, int chunks, int group,
                                    float* panel) {
  const int elements = chunk_elements(format);
  float* to = group_start(panel, group, chunks * elements);
  float rows[8 * kMaxChunkElements];
  for (int chunk = 0; chunk < chunks; ++chunk, to += elements * 16) {
    decode_any(format, raw + chunk * 128, 8, rows);
    transpose_any(elements, rows, 16, to);
  }
}

TILEWRIGHT_CLONES void pack_transposed_columns(Format format, const uint8_t* raw, int chunks, int group,
                                               float* panel) {
  using Vector = Lanes<8>::Vector;
  typedef int Pick __attribute__((vector_size(32)));
  constexpr Pick kEvenThenOdd = {0, 2, 4, 6, 1, 3, 5, 7};
  const int depth = 8 * chunks;
  float values[8 * kSparseChunks * 8];
  decode_any(format, raw, depth, values);
  float* to = group_start(panel, group, depth);
  for (int k = 0; k < depth; ++k, to += 16) {
    const Vector line = *reinterpret_cast<const Vector*>(values + k * 8);
    *reinterpret_cast<Vector*>(to) = __builtin_shuffle(line, kEvenThenOdd);
  }
}

TILEWRIGHT_CLONES void multiply_panels(const WarpProduct& product, const float* a, const float* b, const Lanes32* d) {
  const int elements = chunk_elements(product.format);
  const int registers = product.accumulator == Accumulator::f16 ? 2 : 4;
  const int b_chunks = product.kept ? kSparseChunks : kWgmmaChunks;
  alignas(64) float tile[16 * 16];
  for (int group = 0; group < product.groups; ++group, d += registers) {
    if (group % 2 == 0) {
      if (product.kept) multiply_kept<16>(a, elements, kWgmmaChunks, b, *product.kept, tile);
      else any_product_tile(elements, a, b, tile);
      b += b_chunks * elements * 16;
    }
    const float* sums = tile + group % 2 * 8;
    const ConstLanes32 old[4] = {d[0], d[1], d[registers - 2], d[registers - 1]};
    if (product.accumulator == Accumulator::f32) {
      add_group_f32(sums, 16, product.fresh ? nullptr : old, d);
    } else {
      add_group(product.accumulator, product.saturate, sums, 16, product.fresh ? nullptr : old, d);
    }
  }
}

}  // namespace tilewright::vgpu
