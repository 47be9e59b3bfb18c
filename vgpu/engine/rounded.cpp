#include "numeric.h"

namespace tilewright::vgpu {

#define NEVER_MOVED __attribute__((noinline, noclone))

// Volatile operands keep the operation between the changes of the rounding mode.
NEVER_MOVED float rounded_add(float a, float b) {
  volatile float x = a, y = b;
  return x + y;
}
NEVER_MOVED float rounded_mul(float a, float b) {
  volatile float x = a, y = b;
  return x * y;
}
NEVER_MOVED float rounded_div(float a, float b) {
  volatile float x = a, y = b;
  return x / y;
}
NEVER_MOVED float rounded_fma(float a, float b, float c) {
  volatile float x = a, y = b, z = c;
  return std::fma(x, y, z);
}
NEVER_MOVED float rounded_sqrt(float a) {
  volatile float x = a;
  return std::sqrt(x);
}
NEVER_MOVED double rounded_add(double a, double b) {
  volatile double x = a, y = b;
  return x + y;
}
NEVER_MOVED double rounded_mul(double a, double b) {
  volatile double x = a, y = b;
  return x * y;
}
NEVER_MOVED double rounded_div(double a, double b) {
  volatile double x = a, y = b;
  return x / y;
}
NEVER_MOVED double rounded_fma(double a, double b, double c) {
  volatile double x = a, y = b, z = c;
  return std::fma(x, y, z);
}
NEVER_MOVED double rounded_sqrt(double a) {
  volatile double x = a;
  return std::sqrt(x);
}
NEVER_MOVED float rounded_narrow(double a) {
  volatile double x = a;
  return static_cast<float>(x);
}

namespace {

// Whether a magnitude with the given lowest kept bit and remainder rounds up; `half` compares the remainder with 1/2.
bool rounds_up(Round mode, bool negative, bool odd, double remainder) {
  switch (mode) {
    case Round::nearest: return remainder > 0.5 || (remainder == 0.5 && odd);
    case Round::away: return remainder >= 0.5;
    case Round::zero: return false;
    case Round::down: return negative && remainder > 0;
    default: return !negative && remainder > 0;
  }
}

uint32_t overflow_code(const SmallFloat& f, Round mode, bool negative, bool finite) {
  const bool toward_zero = mode == Round::zero || (mode == Round::down && !negative) || (mode == Round::up && negative);
  if (finite || toward_zero) return f.largest;
  return f.infinity ? ((1u << f.exponent) - 1) << f.mantissa : f.nan;
}

}  // namespace

uint32_t encode_small(double value, const SmallFloat& f, Round mode, bool finite) {
  const uint32_t sign = std::signbit(value) ? 1u << (f.mantissa + f.exponent) : 0;
  if (std::isnan(value)) return f.nan;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | (finite ? f.largest : f.infinity ? overflow_code(f, Round::nearest, false, false) : f.nan);
  int e = 0;
  std::frexp(magnitude, &e);  // magnitude in [2^(e-1), 2^e)
  int exponent = e - 1;
  if (exponent < 1 - f.bias) exponent = 1 - f.bias;
  const double scaled = std::ldexp(magnitude, f.mantissa - exponent);  // kept bits before the point
  double kept = std::floor(scaled);
  const double remainder = scaled - kept;
  auto code = static_cast<uint64_t>(kept);
  if (rounds_up(mode, sign != 0, code & 1, remainder)) ++code;
  const uint64_t one = uint64_t{1} << f.mantissa;
  // Adding the exponent arithmetically carries a mantissa overflow into it; a denormal has no hidden bit.
  const uint64_t bits = code < one ? code : code + (static_cast<uint64_t>(exponent + f.bias) << f.mantissa) - one;
  if (bits > f.largest) return sign | overflow_code(f, mode, sign != 0, finite);
  return sign | static_cast<uint32_t>(bits);
}

}  // namespace tilewright::vgpu
