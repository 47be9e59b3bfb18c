#include "reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "matrix_formats.h"

namespace tilewright::vgpu {
namespace {

struct Half {
  uint16_t bits;
  float value() const { return float_of_half(bits); }
  static Half of(float v) { return {half_of_float(v)}; }
};

struct Bfloat {
  uint16_t bits;
  float value() const { return float_of_bits(static_cast<uint32_t>(bits) << 16); }
  static Bfloat of(float v) {
    const uint32_t raw = bits_of_float(v);
    if ((raw & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
    return {static_cast<uint16_t>((raw + 0x7fffu + (raw >> 16 & 1u)) >> 16)};
  }
};

template <typename T>
bool combine_integer(Reduction operation, T a, T b, T& out) {
  using Bits = std::make_unsigned_t<T>;
  const auto x = static_cast<Bits>(a), y = static_cast<Bits>(b);
  switch (operation) {
    case Reduction::add: out = static_cast<T>(x + y); return true;
    case Reduction::min: out = std::min(a, b); return true;
    case Reduction::max: out = std::max(a, b); return true;
    case Reduction::inc: out = static_cast<T>(x >= y ? 0 : x + 1); return std::is_same_v<T, uint32_t>;
    case Reduction::dec: out = static_cast<T>(x == 0 || x > y ? y : x - 1); return std::is_same_v<T, uint32_t>;
    case Reduction::bit_and: out = static_cast<T>(x & y); return true;
    case Reduction::bit_or: out = static_cast<T>(x | y); return true;
    case Reduction::bit_xor: out = static_cast<T>(x ^ y); return true;
  }
  return false;
}

template <typename T>
bool combine(Reduction operation, T a, T b, T& out) {
  if constexpr (std::is_integral_v<T>) {
    return combine_integer(operation, a, b, out);
  } else if constexpr (std::is_floating_point_v<T>) {
    out = a + b;
    return operation == Reduction::add;
  } else {
    const float x = a.value(), y = b.value();
    out = T::of(operation == Reduction::add ? x + y : operation == Reduction::min ? std::fmin(x, y) : std::fmax(x, y));
    return operation <= Reduction::max;
  }
}

template <typename T>
bool apply(Reduction operation, void* target, const void* source, uint32_t count) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  for (uint32_t k = 0; k < count; ++k) {
    Bits* cell = static_cast<Bits*>(target) + k;
    T operand;
    std::memcpy(&operand, static_cast<const uint8_t*>(source) + k * sizeof(T), sizeof(T));
    Bits seen = __atomic_load_n(cell, __ATOMIC_RELAXED), next;
    do {
      T old, sum;
      std::memcpy(&old, &seen, sizeof(T));
      if (!combine(operation, old, operand, sum)) return false;
      std::memcpy(&next, &sum, sizeof(T));
    } while (!__atomic_compare_exchange_n(cell, &seen, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
  return true;
}

}  // namespace

uint32_t reduction_bytes(ReductionType type) {
  switch (type) {
    case ReductionType::u64:
    case ReductionType::s64:
    case ReductionType::f64: return 8;
    case ReductionType::f16:
    case ReductionType::bf16: return 2;
    default: return 4;
  }
}

bool reduce_into(Reduction operation, ReductionType type, void* target, const void* source, uint32_t count) {
  switch (type) {
    case ReductionType::u32: return apply<uint32_t>(operation, target, source, count);
    case ReductionType::s32: return apply<int32_t>(operation, target, source, count);
    case ReductionType::u64: return apply<uint64_t>(operation, target, source, count);
    case ReductionType::s64: return apply<int64_t>(operation, target, source, count);
    case ReductionType::f32: return apply<float>(operation, target, source, count);
    case ReductionType::f64: return apply<double>(operation, target, source, count);
    case ReductionType::f16: return apply<Half>(operation, target, source, count);
    case ReductionType::bf16: return apply<Bfloat>(operation, target, source, count);
  }
  return false;
}

}  // namespace tilewright::vgpu
