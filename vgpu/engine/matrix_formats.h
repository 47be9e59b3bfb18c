// Element formats of matrix operands: packed bytes to floats, floats to accumulators.
#pragma once

#include <cstdint>

#include "clones.h"

namespace tilewright::vgpu {

enum class Format : uint8_t { f16, bf16, tf32, e4m3, e5m2, s8, u8, s4, u4 };

enum class Accumulator : uint8_t { f32, f16, s32 };

// Elements in 16 bytes, the width of one fragment register row and of one shared memory chunk.
constexpr int chunk_elements(Format format) {
  switch (format) {
    case Format::f16:
    case Format::bf16: return 8;
    case Format::tf32: return 4;
    case Format::s4:
    case Format::u4: return 32;
    default: return 16;
  }
}

constexpr bool is_integer(Format format) { return format >= Format::s8; }

// Values of the 256 codes; e4m3 has no infinity and NaN at 0x7f and 0xff.
extern const float* const kE4m3Values;
extern const float* const kE5m2Values;

inline __attribute__((always_inline)) float float_of_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

inline __attribute__((always_inline)) uint32_t bits_of_float(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}

// Scaling by 2^112 moves the exponent bias from 15 to 127 and normalises denormals; infinities and NaNs need all ones.
inline __attribute__((always_inline)) float float_of_half(uint16_t half) {
  const uint32_t bits = bits_of_float(float_of_bits((half & 0x7fffu) << 13) * 0x1p112f);
  const uint32_t special = (half & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
  return float_of_bits(bits | special | (half & 0x8000u) << 16);
}

// Decodes `chunks` times 16 packed bytes. Every value of every format is exact in f32; tf32 drops the low 13 bits.
template <Format format>
inline __attribute__((always_inline)) void decode(const void* packed, int chunks, float* out) {
  const int count = chunks * chunk_elements(format);
  typedef uint16_t Half __attribute__((may_alias));
  typedef uint32_t Word __attribute__((may_alias));
  const auto* bytes = static_cast<const uint8_t*>(packed);
  const auto* halves = static_cast<const Half*>(packed);
  const auto* words = static_cast<const Word*>(packed);
  for (int i = 0; i < count; ++i) {
    if constexpr (format == Format::f16) out[i] = float_of_half(halves[i]);
    if constexpr (format == Format::bf16) out[i] = float_of_bits(static_cast<uint32_t>(halves[i]) << 16);
    if constexpr (format == Format::tf32) out[i] = float_of_bits(words[i] & 0xffffe000u);
    if constexpr (format == Format::e4m3) out[i] = kE4m3Values[bytes[i]];
    if constexpr (format == Format::e5m2) out[i] = kE5m2Values[bytes[i]];
    if constexpr (format == Format::s8) out[i] = static_cast<int8_t>(bytes[i]);
    if constexpr (format == Format::u8) out[i] = bytes[i];
    if constexpr (format == Format::u4) out[i] = static_cast<float>((bytes[i / 2] >> i % 2 * 4) & 15);
    if constexpr (format == Format::s4) out[i] = static_cast<float>((((bytes[i / 2] >> i % 2 * 4) & 15) ^ 8) - 8);
  }
}

inline __attribute__((always_inline)) void decode_any(Format format, const void* packed, int chunks, float* out) {
  switch (format) {
    case Format::f16: return decode<Format::f16>(packed, chunks, out);
    case Format::bf16: return decode<Format::bf16>(packed, chunks, out);
    case Format::tf32: return decode<Format::tf32>(packed, chunks, out);
    case Format::e4m3: return decode<Format::e4m3>(packed, chunks, out);
    case Format::e5m2: return decode<Format::e5m2>(packed, chunks, out);
    case Format::s8: return decode<Format::s8>(packed, chunks, out);
    case Format::u8: return decode<Format::u8>(packed, chunks, out);
    case Format::s4: return decode<Format::s4>(packed, chunks, out);
    default: return decode<Format::u4>(packed, chunks, out);
  }
}

// Round to nearest even, overflow to infinity, NaN to 0x7fff as the hardware conversions do.
uint16_t half_of_float(float value);

}  // namespace tilewright::vgpu
