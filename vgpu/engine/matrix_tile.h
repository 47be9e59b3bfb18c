// The inner loops of every matrix instruction: one warp's 16 rows times a panel of columns, in f32.
// All of it is forced inline, so that each caller's TILEWRIGHT_CLONES wrapper compiles it for its own vector width.
#pragma once

#include "matrix_formats.h"

namespace tilewright::vgpu {

#define TILEWRIGHT_INLINE inline __attribute__((always_inline))

using Lanes32 = uint32_t*;
using ConstLanes32 = const uint32_t*;

// A warp's accumulator registers hold the even columns of an 8-column group in one register and the odd ones in the
// next, so panels keep a group's columns in this order and a register row is four neighbouring panel columns.
constexpr int kPanelColumn[8] = {0, 4, 1, 5, 2, 6, 3, 7};

constexpr int kMaxChunks = 2;
constexpr int kMaxChunkElements = 32;
constexpr int kMaxDepth = kMaxChunks * kMaxChunkElements;

template <int width>
struct Lanes {
  typedef float Vector __attribute__((vector_size(width * 4), aligned(4), may_alias));
};

// out[8][width] = sum over k of a * b. a: [chunks][16][elements], b: [chunks * elements][width]. Each output sums its
// products in the order of k; products of all formats are exact in f32, integer sums as well.
template <int width, int elements>
TILEWRIGHT_INLINE void multiply_rows(const float* a, const float* b, int chunks, float* out) {
  using Vector = typename Lanes<width>::Vector;
  constexpr int kRows = 8;
  Vector sum[kRows] = {};
  for (int chunk = 0; chunk < chunks; ++chunk, a += 16 * elements) {
    for (int k = 0; k < elements; ++k, b += width) {
      const Vector column = *reinterpret_cast<const Vector*>(b);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) sum[row] += column * a[row * elements + k];
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) *reinterpret_cast<Vector*>(out + row * width) = sum[row];
}

// out[16][width], rows 0-7 and then rows 8-15, so that eight vector sums stay in registers.
template <int width, int elements>
TILEWRIGHT_INLINE void multiply_tile(const float* a, const float* b, int chunks, float* out) {
  multiply_rows<width, elements>(a, b, chunks, out);
  multiply_rows<width, elements>(a + 8 * elements, b, chunks, out + 8 * width);
}

// rows: eight operand rows, one per column of B, `pitch` floats apart. panel[k][column of the group], k < 8.
TILEWRIGHT_INLINE void transpose_block(const float* rows, int pitch, int width, float* panel) {
  using Vector = Lanes<8>::Vector;
  typedef int Pick __attribute__((vector_size(32)));
  constexpr Pick kLow = {0, 8, 1, 9, 4, 12, 5, 13}, kHigh = {2, 10, 3, 11, 6, 14, 7, 15};
  constexpr Pick kLowPair = {0, 1, 8, 9, 4, 5, 12, 13}, kHighPair = {2, 3, 10, 11, 6, 7, 14, 15};
  constexpr Pick kLowHalf = {0, 1, 2, 3, 8, 9, 10, 11}, kHighHalf = {4, 5, 6, 7, 12, 13, 14, 15};
  // Even columns first: rows 0, 2, 4, 6 make the low half of each panel row and rows 1, 3, 5, 7 the high half.
  Vector quad[2][4];
#pragma GCC unroll 2
  for (int odd = 0; odd < 2; ++odd) {
    Vector row[4];
    for (int i = 0; i < 4; ++i) row[i] = *reinterpret_cast<const Vector*>(rows + (2 * i + odd) * pitch);
    const Vector a = __builtin_shuffle(row[0], row[1], kLow), b = __builtin_shuffle(row[0], row[1], kHigh);
    const Vector c = __builtin_shuffle(row[2], row[3], kLow), d = __builtin_shuffle(row[2], row[3], kHigh);
    quad[odd][0] = __builtin_shuffle(a, c, kLowPair);
    quad[odd][1] = __builtin_shuffle(a, c, kHighPair);
    quad[odd][2] = __builtin_shuffle(b, d, kLowPair);
    quad[odd][3] = __builtin_shuffle(b, d, kHighPair);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    *reinterpret_cast<Vector*>(panel + k * width) = __builtin_shuffle(quad[0][k], quad[1][k], kLowHalf);
    *reinterpret_cast<Vector*>(panel + (k + 4) * width) = __builtin_shuffle(quad[0][k], quad[1][k], kHighHalf);
  }
}

// rows: [8][elements], one operand row per column of B. panel[k][column of the group], row pitch `width` floats.
template <int elements>
TILEWRIGHT_INLINE void transpose_group(const float* rows, int width, float* panel) {
  if constexpr (elements % 8 == 0) {
    for (int k = 0; k < elements; k += 8) transpose_block(rows + k, elements, width, panel + k * width);
  } else {
    for (int k = 0; k < elements; ++k, panel += width) {
      for (int column = 0; column < 8; ++column) panel[kPanelColumn[column]] = rows[column * elements + k];
    }
  }
}

TILEWRIGHT_INLINE void transpose_any(int elements, const float* rows, int width, float* panel) {
  switch (elements) {
    case 4: return transpose_group<4>(rows, width, panel);
    case 8: return transpose_group<8>(rows, width, panel);
    case 16: return transpose_group<16>(rows, width, panel);
    default: return transpose_group<32>(rows, width, panel);
  }
}

// Adds one 8-column group of a tile (rows 0-15, `pitch` floats apart) to its four f32 accumulator registers.
// With c null the old value counts as zero.
TILEWRIGHT_INLINE void add_group_f32(const float* tile, int pitch, const ConstLanes32* c, const Lanes32* d) {
  using Vector = Lanes<4>::Vector;
#pragma GCC unroll 4
  for (int index = 0; index < 4; ++index) {
    const float* sums = tile + (index >> 1) * 8 * pitch + (index & 1) * 4;
    auto* to = reinterpret_cast<Vector*>(d[index]);
    if (c) {
      const auto* from = reinterpret_cast<const Vector*>(c[index]);
#pragma GCC unroll 8
      for (int row = 0; row < 8; ++row) to[row] = from[row] + *reinterpret_cast<const Vector*>(sums + row * pitch);
    } else {
#pragma GCC unroll 8
      for (int row = 0; row < 8; ++row) to[row] = *reinterpret_cast<const Vector*>(sums + row * pitch);
    }
  }
}

// The same for f32 (4 registers), s32 (4) or f16 (2) accumulators.
void add_group(Accumulator accumulator, bool saturate, const float* tile, int pitch, const ConstLanes32* c,
               const Lanes32* d);

}  // namespace tilewright::vgpu
