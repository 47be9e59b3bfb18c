#include "mma_math.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tilewright::vgpu {
namespace {

int32_t add_s32(int32_t old, float sum, bool saturate) {
  const auto product = static_cast<int32_t>(sum);
  if (!saturate) return static_cast<int32_t>(static_cast<uint32_t>(old) + static_cast<uint32_t>(product));
  const int64_t wide = int64_t{old} + product;
  return static_cast<int32_t>(std::clamp<int64_t>(wide, std::numeric_limits<int32_t>::min(),
                          std::numeric_limits<int32_t>::max()));
}

uint32_t add_f16x2(uint32_t old, float even, float odd) {
  const float low = float_of_half(static_cast<uint16_t>(old)) + even;
  const float high = float_of_half(static_cast<uint16_t>(old >> 16)) + odd;
  return half_of_float(low) | static_cast<uint32_t>(half_of_float(high)) << 16;
}

// One register row: four lanes of row `group`, whose sums are sums[0..3].
void add_row_s32(const float* sums, bool saturate, const uint32_t* c, uint32_t* d) {
  for (int t = 0; t < 4; ++t) {
    d[t] = static_cast<uint32_t>(add_s32(static_cast<int32_t>(c ? c[t] : 0u), sums[t], saturate));
  }
}

void add_group_f16(const float* tile, int pitch, const ConstLanes32* c, const Lanes32* d) {
  for (int row = 0; row < 16; ++row) {
    const float* sums = tile + row * pitch;
    const int half = row >> 3, lane = (row & 7) * 4;
    for (int t = 0; t < 4; ++t) {
      d[half][lane + t] = add_f16x2(c ? c[half][lane + t] : 0u, sums[t], sums[4 + t]);
    }
  }
}

void add_group_s32(bool saturate, const float* tile, int pitch, const ConstLanes32* c, const Lanes32* d) {
  for (int row = 0; row < 16; ++row) {
    for (int odd = 0; odd < 2; ++odd) {
      const int index = (row >> 3) * 2 + odd, lane = (row & 7) * 4;
      add_row_s32(tile + row * pitch + 4 * odd, saturate, c ? c[index] + lane : nullptr, d[index] + lane);
    }
  }
}

template <Format a_format, Format b_format>
TILEWRIGHT_INLINE void multiply_fragments(const MmaShape& shape, const ConstLanes32* a, const ConstLanes32* b,
                                         float* tile) {
  constexpr int elements = chunk_elements(a_format);
  alignas(64) float a_panel[16 * kMaxChunks * elements], b_panel[8 * kMaxChunks * elements], rows[8 * elements];
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    decode<a_format>(a[2 * chunk], 8, a_panel + 2 * chunk * 8 * elements);
    decode<a_format>(a[2 * chunk + 1], 8, a_panel + (2 * chunk + 1) * 8 * elements);
    decode<b_format>(b[chunk], 8, rows);
    transpose_group<elements>(rows, 8, b_panel + chunk * elements * 8);
  }
  multiply_tile<8, elements>(a_panel, b_panel, shape.chunks, tile);
}

struct Fragments {
  const ConstLanes32 *a, *b, *c;
  const Lanes32* d;
};

template <Format a_format, Format b_format>
TILEWRIGHT_INLINE void multiply_add(const MmaShape& shape, const Fragments& f) {
  alignas(64) float tile[16 * 8];
  multiply_fragments<a_format, b_format>(shape, f.a, f.b, tile);
  if (shape.accumulator == Accumulator::f32) {
    add_group_f32(tile, 8, f.c, f.d);
  } else {
    add_group(shape.accumulator, shape.saturate, tile, 8, f.c, f.d);
  }
}

#define TILEWRIGHT_MMA_TILE(a_format, b_format)                                                \
  TILEWRIGHT_CLONES void tile_##a_format##_##b_format(const MmaShape& shape, const Fragments& f) { \
    multiply_add<Format::a_format, Format::b_format>(shape, f);                                \
  }

TILEWRIGHT_MMA_TILE(f16, f16)
TILEWRIGHT_MMA_TILE(bf16, bf16)
TILEWRIGHT_MMA_TILE(tf32, tf32)
TILEWRIGHT_MMA_TILE(e4m3, e4m3)
TILEWRIGHT_MMA_TILE(e4m3, e5m2)
TILEWRIGHT_MMA_TILE(e5m2, e4m3)
TILEWRIGHT_MMA_TILE(e5m2, e5m2)
TILEWRIGHT_MMA_TILE(s8, s8)
TILEWRIGHT_MMA_TILE(s8, u8)
TILEWRIGHT_MMA_TILE(u8, s8)
TILEWRIGHT_MMA_TILE(u8, u8)
TILEWRIGHT_MMA_TILE(s4, s4)
TILEWRIGHT_MMA_TILE(s4, u4)
TILEWRIGHT_MMA_TILE(u4, s4)
TILEWRIGHT_MMA_TILE(u4, u4)

using TileFunction = void (*)(const MmaShape&, const Fragments&);

TileFunction select_tile(Format a, Format b) {
  switch (a) {
    case Format::f16: return tile_f16_f16;
    case Format::bf16: return tile_bf16_bf16;
    case Format::tf32: return tile_tf32_tf32;
    case Format::e4m3: return b == Format::e4m3 ? tile_e4m3_e4m3 : tile_e4m3_e5m2;
    case Format::e5m2: return b == Format::e4m3 ? tile_e5m2_e4m3 : tile_e5m2_e5m2;
    case Format::s8: return b == Format::s8 ? tile_s8_s8 : tile_s8_u8;
    case Format::u8: return b == Format::s8 ? tile_u8_s8 : tile_u8_u8;
    case Format::s4: return b == Format::s4 ? tile_s4_s4 : tile_s4_u4;
    default: return b == Format::s4 ? tile_u4_s4 : tile_u4_u4;
  }
}

}  // namespace

void add_group(Accumulator accumulator, bool saturate, const float* tile, int pitch, const ConstLanes32* c,
               const Lanes32* d) {
  switch (accumulator) {
    case Accumulator::f32: return add_group_f32(tile, pitch, c, d);
    case Accumulator::f16: return add_group_f16(tile, pitch, c, d);
    case Accumulator::s32: return add_group_s32(saturate, tile, pitch, c, d);
  }
}

void mma_m16n8(const MmaShape& shape, const ConstLanes32* a, const ConstLanes32* b, const ConstLanes32* c,
               const Lanes32* d) {
  select_tile(shape.a, shape.b)(shape, {a, b, c, d});
}

void mma_m16n8_b1(int chunks, bool conjunction, const ConstLanes32* a, const ConstLanes32* b, const ConstLanes32* c,
                  const Lanes32* d) {
  uint32_t sums[4][32];
  for (int index = 0; index < 4; ++index) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane & ~3, column = 4 * (2 * (lane & 3) + (index & 1));
      uint32_t sum = c[index][lane];
      for (int word = 0; word < 4 * chunks; ++word) {
        const uint32_t x = a[2 * (word >> 2) + (index >> 1)][row + (word & 3)];
        const uint32_t y = b[word >> 2][column + (word & 3)];
        sum += static_cast<uint32_t>(__builtin_popcount(conjunction ? x & y : x ^ y));
      }
      sums[index][lane] = sum;
    }
  }
  for (int index = 0; index < 4; ++index) std::memcpy(d[index], sums[index], sizeof sums[index]);
}

void mma_f64(int rows, int depth, Round rounding, const double* const* a, const double* const* b,
             const double* const* c, double* const* d) {
  const int halves = rows / 8;
  const RoundScope scope(rounding);
  double sums[4][32];
  for (int index = 0; index < 2 * halves; ++index) {
    for (int lane = 0; lane < 32; ++lane) {
      const int column = 4 * (2 * (lane & 3) + (index & 1));
      double sum = c[index][lane];
      for (int k = 0; k < depth; ++k) {
        const double x = a[(k >> 2) * halves + (index >> 1)][(lane & ~3) + (k & 3)];
        sum = rounded_fma(x, b[k >> 2][column + (k & 3)], sum);
      }
      sums[index][lane] = sum;
    }
  }
  for (int index = 0; index < 2 * halves; ++index) std::memcpy(d[index], sums[index], sizeof sums[index]);
}

}  // namespace tilewright::vgpu
