// cvt in all directions. imm: to, from, rounding, flags, then the register bytes of destination and source.
#include <limits>
#include <type_traits>

#include "lanes.h"
#include "numeric.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

constexpr int64_t kFtz = 1, kSat = 2, kRelu = 4, kFinite = 8, kIntegral = 16;

// A source narrower than its register, or a destination wider than its type, passes through a copy.
template <class T>
const Store<T>* source(Warp& w, uint32_t op, int64_t bytes, Store<T>* copy) {
  if (sizeof(T) == 8 || bytes != 8) return slot<T>(w, op);
  const uint64_t* wide = w.r64(op);
  for (int l = 0; l < kLanes; ++l) copy[l] = static_cast<Store<T>>(wide[l]);
  return copy;
}

// An integer narrower than its register is sign- or zero-extended to it; a 16-bit register keeps 16 bits.
template <class T>
uint32_t extended(T x, int64_t bytes) {
  const auto wide = static_cast<uint32_t>(static_cast<int32_t>(x));
  return bytes == 2 ? wide & 0xffffu : wide;
}

template <class T, class F>
void destination(Warp& w, uint32_t op, int64_t bytes, Mask m, F f) {
  if (sizeof(T) == 8 || bytes != 8) {
    auto* d = slot<T>(w, op);
    each_lane(m, [&](int l) {
      if constexpr (std::is_integral_v<T> && sizeof(T) < 4) d[l] = extended(f(l), bytes);
      else d[l] = put<T>(f(l));
    });
    return;
  }
  uint64_t* d = w.r64(op);
  each_lane(m, [&](int l) {
    if constexpr (std::is_integral_v<T>) d[l] = static_cast<uint64_t>(static_cast<int64_t>(f(l)));
    else d[l] = put<T>(f(l));
  });
}

template <class D, class S>
D integer_to_integer(S x, int64_t flags) {
  if (flags & kSat) {
    using L = std::numeric_limits<D>;
    if constexpr (std::is_signed_v<S>) {
      if (x < 0 && (!std::is_signed_v<D> || static_cast<int64_t>(x) < static_cast<int64_t>(L::min()))) return L::min();
    }
    if (x > 0 && static_cast<uint64_t>(x) > static_cast<uint64_t>(L::max())) return L::max();
  }
  return static_cast<D>(x);
}

template <class D, class S>
Step integer(Warp& w, const Instr& i, Mask m) {
  Store<S> copy[kLanes];
  const auto* a = source<S>(w, i.ops[1], i.imm[5], copy);
  const int64_t flags = i.imm[3];
  destination<D>(w, i.ops[0], i.imm[4], m, [&](int l) { return integer_to_integer<D, S>(get<S>(a[l]), flags); });
  return Step::next;
}

double to_integral(double x, Round mode) {
  switch (mode) {
    case Round::zero: return std::trunc(x);
    case Round::down: return std::floor(x);
    case Round::up: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}

template <class D>
D float_to_integer(double x, Round mode, bool wide_source) {
  using L = std::numeric_limits<D>;
  // PTX ISA, cvt: NaN gives 0 between types below 64 bits, else the highest bit.
  if (std::isnan(x))
    return wide_source || sizeof(D) == 8 ? static_cast<D>(uint64_t{1} << (8 * sizeof(D) - 1)) : D{0};
  const double r = to_integral(x, mode);
  if (r < static_cast<double>(L::min())) return L::min();
  if (r >= std::ldexp(1.0, L::digits)) return L::max();
  return static_cast<D>(r);
}

// Float sources as double: exact for every format.
struct H16 {
  static double load(uint32_t x) { return float_of_half(static_cast<uint16_t>(x)); }
  static double tiny() { return 0; }  // .ftz is about subnormals of f32
  using Bits = uint32_t;
};
struct B16 {
  static double load(uint32_t x) { return float_of_bf16(x & 0xffff); }
  static double tiny() { return 0x1p-126; }
  using Bits = uint32_t;
};
struct F32 {
  static double load(uint32_t x) { return get<float>(x); }
  static double tiny() { return 0x1p-126; }
  using Bits = uint32_t;
};
struct F64 {
  static double load(uint64_t x) { return get<double>(x); }
  static double tiny() { return 0; }
  using Bits = uint64_t;
};

template <class S>
double load(typename S::Bits bits, int64_t flags) {
  const double x = S::load(bits);
  return (flags & kFtz) && std::fabs(x) < S::tiny() ? std::copysign(0.0, x) : x;
}

template <class D, class S>
Step to_integer(Warp& w, const Instr& i, Mask m) {
  const auto* a = reinterpret_cast<const typename S::Bits*>(w.file + i.ops[1]);
  const auto mode = static_cast<Round>(i.imm[2]);
  destination<D>(w, i.ops[0], i.imm[4], m,
                 [&](int l) { return float_to_integer<D>(load<S>(a[l], i.imm[3]), mode, std::is_same_v<S, F64>); });
  return Step::next;
}

double clamp_value(double x, int64_t flags) {
  if (flags & kSat) x = saturate(x);
  if ((flags & kRelu) && !(x > 0) && !std::isnan(x)) x = 0;
  return x;
}

template <class D>
typename D::Bits encode(double x, Round mode, int64_t flags);
template <>
uint32_t encode<H16>(double x, Round mode, int64_t flags) {
  return encode_small(x, kF16, mode, flags & kFinite);
}
template <>
uint32_t encode<B16>(double x, Round mode, int64_t flags) {
  return encode_small(x, kBf16, mode, flags & kFinite);
}
template <>
uint32_t encode<F32>(double x, Round, int64_t flags) {  // under a RoundScope
  const float r = rounded_narrow(x);
  return put<float>(flags & kFtz ? flush(r) : r);
}
template <>
uint64_t encode<F64>(double x, Round, int64_t) {
  return put<double>(x);
}

template <class D, class S>
Step float_to_float(Warp& w, const Instr& i, Mask m) {
  const auto* a = reinterpret_cast<const typename S::Bits*>(w.file + i.ops[1]);
  auto* d = reinterpret_cast<typename D::Bits*>(w.file + i.ops[0]);
  const auto mode = static_cast<Round>(i.imm[2]);
  const int64_t flags = i.imm[3];
  if (flags & kIntegral) {
    each_lane(m, [&](int l) {
      d[l] = encode<D>(clamp_value(to_integral(load<S>(a[l], flags), mode), flags), Round::nearest, flags);
    });
    return Step::next;
  }
  const RoundScope scope(mode);
  each_lane(m, [&](int l) { d[l] = encode<D>(clamp_value(load<S>(a[l], flags), flags), mode, flags); });
  return Step::next;
}

Step half_to_float(Warp& w, const Instr& i, Mask m) {
  if (i.imm[3]) return float_to_float<F32, H16>(w, i, m);
  float* d = w.f32(i.ops[0]);
  const uint32_t* a = w.r32(i.ops[1]);
  each_lane(m, [&](int l) { d[l] = float_of_half(static_cast<uint16_t>(a[l])); });
  return Step::next;
}

Step float_to_half(Warp& w, const Instr& i, Mask m) {
  if (i.imm[3] || i.imm[2]) return float_to_float<H16, F32>(w, i, m);
  uint32_t* d = w.r32(i.ops[0]);
  const float* a = w.f32(i.ops[1]);
  each_lane(m, [&](int l) { d[l] = half_of_float(a[l]); });
  return Step::next;
}

template <class T>
__attribute__((noinline, noclone)) float int_to_f32(T x) {
  volatile T v = x;
  return static_cast<float>(v);
}
template <class T>
__attribute__((noinline, noclone)) double int_to_f64(T x) {
  volatile T v = x;
  return static_cast<double>(v);
}

// The integer with what a double cannot hold folded into a bit far below the last place of a half: rounding it once more
// rounds the integer.
template <class T>
double sticky_double(T x) {
  const bool negative = x < 0;
  uint64_t magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  if (magnitude >> 53) magnitude = (magnitude & ~uint64_t{0x7ff}) | (magnitude & 0x7ff ? 0x800 : 0);
  const auto value = static_cast<double>(magnitude);
  return negative ? -value : value;
}

template <class D, class S>
Step from_integer(Warp& w, const Instr& i, Mask m) {
  Store<S> copy[kLanes];
  const auto* a = source<S>(w, i.ops[1], i.imm[5], copy);
  auto* d = reinterpret_cast<typename D::Bits*>(w.file + i.ops[0]);
  const auto mode = static_cast<Round>(i.imm[2]);
  const RoundScope scope(mode);
  each_lane(m, [&](int l) {
    const S x = get<S>(a[l]);
    if constexpr (std::is_same_v<D, F32>) {
      const float r = int_to_f32(x);
      d[l] = put<float>(i.imm[3] & kSat ? saturate(r) : r);
    } else if constexpr (std::is_same_v<D, F64>) {
      d[l] = put<double>(clamp_value(int_to_f64(x), i.imm[3]));
    } else {
      d[l] = encode<D>(clamp_value(sticky_double(x), i.imm[3]), mode, i.imm[3]);
    }
  });
  return Step::next;
}

// Two f32 into one packed pair; the first source is the upper half.
template <const SmallFloat& kFormat, int kBits>
Step pair_from_f32(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const float *a = w.f32(i.ops[1]), *b = w.f32(i.ops[2]);
  const auto mode = static_cast<Round>(i.imm[2]);
  const int64_t flags = i.imm[3];
  if (mode == Round::nearest && !flags && kBits == 16) {
    if (kFormat.mantissa == 10)
      each_lane(m, [&](int l) { d[l] = uint32_t{half_of_float(a[l])} << 16 | half_of_float(b[l]); });
    else
      each_lane(m, [&](int l) { d[l] = bf16_of_float(a[l]) << 16 | bf16_of_float(b[l]); });
    return Step::next;
  }
  each_lane(m, [&](int l) {
    const uint32_t high = encode_small(clamp_value(a[l], flags), kFormat, mode, flags & kFinite);
    const uint32_t low = encode_small(clamp_value(b[l], flags), kFormat, mode, flags & kFinite);
    d[l] = high << kBits | low;
  });
  return Step::next;
}

template <const SmallFloat& kFormat, class S>
Step fp8_from_pair(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t* a = w.r32(i.ops[1]);
  const int64_t flags = i.imm[3];
  each_lane(m, [&](int l) {
    const uint32_t high = encode_small(clamp_value(S::load(a[l] >> 16), flags), kFormat, Round::nearest, flags & kFinite);
    const uint32_t low = encode_small(clamp_value(S::load(a[l] & 0xffff), flags), kFormat, Round::nearest, flags & kFinite);
    d[l] = high << 8 | low;
  });
  return Step::next;
}

template <bool kE4>
Step half_pair_from_fp8(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t* a = w.r32(i.ops[1]);
  const float* values = kE4 ? kE4m3Values : kE5m2Values;
  each_lane(m, [&](int l) {
    const double high = clamp_value(values[(a[l] >> 8) & 0xff], i.imm[3]), low = clamp_value(values[a[l] & 0xff], i.imm[3]);
    d[l] = encode_small(high, kF16, Round::nearest, false) << 16 | encode_small(low, kF16, Round::nearest, false);
  });
  return Step::next;
}

Step to_tf32(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const float* a = w.f32(i.ops[1]);
  each_lane(m, [&](int l) {
    const uint32_t code = encode_small(clamp_value(a[l], i.imm[3]), kTf32, static_cast<Round>(i.imm[2]), i.imm[3] & kFinite);
    d[l] = code << 13;
  });
  return Step::next;
}

template <class D>
void add_integer_to(Registry& r, const std::string& d) {
  const std::string head = "cvt." + d + ".";
  r.add(head + "s8", integer<D, int8_t>);
  r.add(head + "u8", integer<D, uint8_t>);
  r.add(head + "s16", integer<D, int16_t>);
  r.add(head + "u16", integer<D, uint16_t>);
  r.add(head + "s32", integer<D, int32_t>);
  r.add(head + "u32", integer<D, uint32_t>);
  r.add(head + "s64", integer<D, int64_t>);
  r.add(head + "u64", integer<D, uint64_t>);
  r.add(head + "f16", to_integer<D, H16>);
  r.add(head + "bf16", to_integer<D, B16>);
  r.add(head + "f32", to_integer<D, F32>);
  r.add(head + "f64", to_integer<D, F64>);
}

template <class D>
void add_float_to(Registry& r, const std::string& d) {
  const std::string head = "cvt." + d + ".";
  r.add(head + "s8", from_integer<D, int8_t>);
  r.add(head + "u8", from_integer<D, uint8_t>);
  r.add(head + "s16", from_integer<D, int16_t>);
  r.add(head + "u16", from_integer<D, uint16_t>);
  r.add(head + "s32", from_integer<D, int32_t>);
  r.add(head + "u32", from_integer<D, uint32_t>);
  r.add(head + "s64", from_integer<D, int64_t>);
  r.add(head + "u64", from_integer<D, uint64_t>);
  r.add(head + "bf16", float_to_float<D, B16>);
  r.add(head + "f64", float_to_float<D, F64>);
  if constexpr (!std::is_same_v<D, F32>) r.add(head + "f16", float_to_float<D, H16>);
  else r.add(head + "f16", half_to_float);
  if constexpr (!std::is_same_v<D, H16>) r.add(head + "f32", float_to_float<D, F32>);
  else r.add(head + "f32", float_to_half);
}

}  // namespace

void register_convert(Registry& r) {
  add_integer_to<int8_t>(r, "s8");
  add_integer_to<uint8_t>(r, "u8");
  add_integer_to<int16_t>(r, "s16");
  add_integer_to<uint16_t>(r, "u16");
  add_integer_to<int32_t>(r, "s32");
  add_integer_to<uint32_t>(r, "u32");
  add_integer_to<int64_t>(r, "s64");
  add_integer_to<uint64_t>(r, "u64");
  add_float_to<H16>(r, "f16");
  add_float_to<B16>(r, "bf16");
  add_float_to<F32>(r, "f32");
  add_float_to<F64>(r, "f64");
  r.add("cvt.f16x2.f32", pair_from_f32<kF16, 16>);
  r.add("cvt.bf16x2.f32", pair_from_f32<kBf16, 16>);
  r.add("cvt.e4m3x2.f32", pair_from_f32<kE4m3, 8>);
  r.add("cvt.e5m2x2.f32", pair_from_f32<kE5m2, 8>);
  r.add("cvt.e4m3x2.f16x2", fp8_from_pair<kE4m3, H16>);
  r.add("cvt.e5m2x2.f16x2", fp8_from_pair<kE5m2, H16>);
  r.add("cvt.f16x2.e4m3x2", half_pair_from_fp8<true>);
  r.add("cvt.f16x2.e5m2x2", half_pair_from_fp8<false>);
  r.add("cvt.tf32.f32", to_tf32);
}

}  // namespace tilewright::vgpu
