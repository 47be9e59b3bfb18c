#include "matrix_formats.h"

#include <array>
#include <cmath>

namespace tilewright::vgpu {
namespace {

using CodeTable = std::array<float, 256>;

CodeTable make_e4m3() {
  CodeTable table{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    float value = exponent ? std::ldexp(8.0f + mantissa, exponent - 10) : std::ldexp(float(mantissa), -9);
    if ((code & 0x7f) == 0x7f) value = NAN;
    table[code] = code & 0x80 ? -value : value;
  }
  return table;
}

CodeTable make_e5m2() {
  CodeTable table{};
  for (int code = 0; code < 256; ++code) table[code] = float_of_half(static_cast<uint16_t>(code << 8));
  return table;
}

const CodeTable e4m3_values = make_e4m3(), e5m2_values = make_e5m2();

}  // namespace

const float* const kE4m3Values = e4m3_values.data();
const float* const kE5m2Values = e5m2_values.data();

uint16_t half_of_float(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Adding 2^-1 aligns the half denormal's last bit with the float's last bit, so the addition rounds.
    const uint32_t rounded = bits_of_float(float_of_bits(magnitude) + 0.5f);
    return static_cast<uint16_t>(sign | (rounded - 0x3f000000u));
  }
  const uint32_t rebiased = magnitude - 0x38000000u;
  return static_cast<uint16_t>(sign | ((rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13));
}

}  // namespace tilewright::vgpu
