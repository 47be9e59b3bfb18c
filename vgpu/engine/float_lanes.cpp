#include "float_lanes.h"

#include <cstdint>
#include <cstring>

#include "clones.h"

namespace tilewright::vgpu {

#define LANES for (int l = 0; l < 32; ++l)

namespace {

// PTX ISA, "Floating-Point Instructions": single precision knows one NaN, 0x7fffffff.
inline __attribute__((always_inline)) float canonical(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = x != x ? 0x7fffffffu : bits;
  std::memcpy(&x, &bits, 4);
  return x;
}

}  // namespace

TILEWRIGHT_CLONES void lanes_add(float* d, const float* a, const float* b) { LANES d[l] = canonical(a[l] + b[l]); }
TILEWRIGHT_CLONES void lanes_sub(float* d, const float* a, const float* b) { LANES d[l] = canonical(a[l] - b[l]); }
TILEWRIGHT_CLONES void lanes_mul(float* d, const float* a, const float* b) { LANES d[l] = canonical(a[l] * b[l]); }
TILEWRIGHT_CLONES void lanes_div(float* d, const float* a, const float* b) { LANES d[l] = canonical(a[l] / b[l]); }
TILEWRIGHT_CLONES void lanes_fma(float* d, const float* a, const float* b, const float* c) {
  LANES d[l] = canonical(__builtin_fmaf(a[l], b[l], c[l]));
}
// The operand that is a number wins; max(-0, +0) = +0.
TILEWRIGHT_CLONES void lanes_max(float* d, const float* a, const float* b) {
  LANES {
    const float x = a[l], y = b[l];
    float r = x > y ? x : y;
    r = x != x ? y : r;
    r = y != y ? x : r;
    d[l] = canonical(x == y ? (__builtin_signbitf(x) ? y : x) : r);
  }
}
TILEWRIGHT_CLONES void lanes_min(float* d, const float* a, const float* b) {
  LANES {
    const float x = a[l], y = b[l];
    float r = x < y ? x : y;
    r = x != x ? y : r;
    r = y != y ? x : r;
    d[l] = canonical(x == y ? (__builtin_signbitf(x) ? x : y) : r);
  }
}

// 2^x: integer part into the exponent, the rest in [-1/2, 1/2] by a polynomial in double (error below 2^-27).
TILEWRIGHT_CLONES void lanes_exp2(float* d, const float* a) {
  LANES {
    const float x = a[l];
    float clamped = x < 130.0f ? x : 130.0f;
    clamped = clamped > -155.0f ? clamped : -155.0f;
    const double n = static_cast<double>(static_cast<int32_t>(clamped + (clamped < 0 ? -0.5f : 0.5f)));
    const double f = (static_cast<double>(clamped) - n) * 0.6931471805599453;
    double p = 1.0 / 5040.0;
    p = p * f + 1.0 / 720.0;
    p = p * f + 1.0 / 120.0;
    p = p * f + 1.0 / 24.0;
    p = p * f + 1.0 / 6.0;
    p = p * f + 0.5;
    p = p * f + 1.0;
    p = p * f + 1.0;
    const uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52;
    double scale;
    std::memcpy(&scale, &bits, 8);
    const float r = static_cast<float>(p * scale);
    d[l] = canonical(x != x ? x : r);
  }
}

}  // namespace tilewright::vgpu
