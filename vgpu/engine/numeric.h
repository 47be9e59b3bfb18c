// Small float formats, rounding modes, flush to zero and saturation.
#pragma once

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "matrix_formats.h"

namespace tilewright::vgpu {

enum class Round : uint8_t { nearest = 0, zero = 1, down = 2, up = 3, away = 4 };

// Sets the host rounding mode for a scope; the arithmetic in it must go through noinline functions of rounded.cpp.
class RoundScope {
 public:
  explicit RoundScope(Round mode) : changed_(mode != Round::nearest) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    if (changed_) std::fesetround(modes[static_cast<int>(mode)]);
  }
  ~RoundScope() {
    if (changed_) std::fesetround(FE_TONEAREST);
  }
  RoundScope(const RoundScope&) = delete;
  RoundScope& operator=(const RoundScope&) = delete;

 private:
  bool changed_;
};

struct SmallFloat {
  int mantissa;  // stored bits
  int exponent;  // bits
  int bias;
  bool infinity;     // has infinities
  uint32_t nan;      // code of the canonical NaN
  uint32_t largest;  // code of the largest finite value
};
constexpr SmallFloat kF16{10, 5, 15, true, 0x7fff, 0x7bff};
constexpr SmallFloat kBf16{7, 8, 127, true, 0x7fff, 0x7f7f};
constexpr SmallFloat kE4m3{3, 4, 7, false, 0x7f, 0x7e};
constexpr SmallFloat kE5m2{2, 5, 15, true, 0x7f, 0x7b};
constexpr SmallFloat kTf32{10, 8, 127, true, 0x3ffff, 0x3fbff};

// Rounds to the format. `finite`: overflow gives the largest finite value. Sign in the top bit of the code.
uint32_t encode_small(double value, const SmallFloat& format, Round mode, bool finite);

inline float float_of_bf16(uint32_t bits) { return float_of_bits(bits << 16); }

inline uint32_t bf16_of_float(float value) {
  const uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

inline float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
inline double flush(double x) { return x; }

template <class T>
T saturate(T x) {
  return x > T{0} ? (x < T{1} ? x : T{1}) : T{0};  // NaN and -0 give +0
}

// x + y rounded to odd in double: exact enough to round once more to a format of at most 24 bits.
inline double sum_to_odd(double x, double y) {
  const double s = x + y;
  if (!std::isfinite(s)) return s;
  const double t = s - x;
  const double error = (x - (s - t)) + (y - t);
  uint64_t bits;
  std::memcpy(&bits, &s, 8);
  if (error == 0 || (bits & 1)) return s;
  const bool away = (error > 0) == (s > 0);
  bits += away ? 1 : uint64_t(-1);
  double odd;
  std::memcpy(&odd, &bits, 8);
  return odd;
}

// rounded.cpp: single operations that obey the host rounding mode, never folded or moved by the compiler.
float rounded_add(float a, float b);
float rounded_mul(float a, float b);
float rounded_div(float a, float b);
float rounded_fma(float a, float b, float c);
float rounded_sqrt(float a);
double rounded_add(double a, double b);
double rounded_mul(double a, double b);
double rounded_div(double a, double b);
double rounded_fma(double a, double b, double c);
double rounded_sqrt(double a);
float rounded_narrow(double a);

}  // namespace tilewright::vgpu
