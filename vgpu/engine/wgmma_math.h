// wgmma operands as float panels, and the product of one warp's 16 rows with a panel of B.
#pragma once

#include "sparse.h"

namespace tilewright::vgpu {

constexpr int kWgmmaChunks = 2;   // one instruction covers 32 bytes of k
constexpr int kSparseChunks = 4;  // and of B 64, where A is sparse

// raw: [chunks][8 rows][16 bytes], the rows of half a warp tile. panel: [chunks][16][elements], rows 8 * half on.
void pack_rows(Format format, const uint8_t* raw, int half, float* panel);

// raw: [16 k][8 elements of 16 bits], the transposed case of pack_rows.
void pack_transposed_rows(Format format, const uint8_t* raw, int half, float* panel);

// raw as in pack_rows, for the eight columns of `group` of B. Panels of B hold two groups side by side:
// [groups / 2][k][16].
void pack_columns(Format format, const uint8_t* raw, int chunks, int group, float* panel);

// raw as in pack_transposed_rows, for the eight columns of `group` of B.
void pack_transposed_columns(Format format, const uint8_t* raw, int chunks, int group, float* panel);

// d += a * b over all column groups; d holds 4 registers a group (f16: 2). `fresh` ignores the old value of d.
struct WarpProduct {
  Format format;
  Accumulator accumulator;
  bool saturate;
  bool fresh;
  int groups;
  const Kept* kept;  // null: A is dense
};
void multiply_panels(const WarpProduct& product, const float* a, const float* b, const Lanes32* d);

}  // namespace tilewright::vgpu
