// Integer arithmetic: add sub mul mad mul24 mad24 sad div rem abs neg min max, carries, dp2a dp4a.
#include <limits>

#include "lanes.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

// Wrapping arithmetic goes through unsigned 64-bit: int16 promotes to int, where overflow is undefined.
template <class T>
T wrap(uint64_t x) {
  return static_cast<T>(x);
}

struct Add {
  template <class T>
  static T f(T a, T b) { return wrap<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
};
struct Sub {
  template <class T>
  static T f(T a, T b) { return wrap<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); }
};
struct MulLo {
  template <class T>
  static T f(T a, T b) { return wrap<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
};
struct MulHi {
  template <class T>
  static T f(T a, T b) { return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T))); }
};
struct MulWide {
  template <class T>
  static Wide<T> f(T a, T b) { return static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b); }
};
struct MadLo {
  template <class T>
  static T f(T a, T b, T c) { return Add::f(MulLo::f(a, b), c); }
};
struct MadHi {
  template <class T>
  static T f(T a, T b, T c) { return Add::f(MulHi::f(a, b), c); }
};
struct MadWide {
  template <class T>
  static Wide<T> f(T a, T b, Wide<T> c) { return Add::f(MulWide::f(a, b), c); }
};
struct AddSat {
  static int32_t f(int32_t a, int32_t b) { return clamp(int64_t{a} + b); }
  static int32_t clamp(int64_t x) {
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : static_cast<int32_t>(x);
  }
};
struct SubSat {
  static int32_t f(int32_t a, int32_t b) { return AddSat::clamp(int64_t{a} - b); }
};
struct MadHiSat {
  static int32_t f(int32_t a, int32_t b, int32_t c) { return AddSat::clamp(int64_t{MulHi::f(a, b)} + c); }
};
template <bool kHigh>
struct Mul24 {
  template <class T>
  static T f(T a, T b) {
    const int64_t x = part(a), y = part(b);
    const uint64_t p = static_cast<uint64_t>(x) * static_cast<uint64_t>(y);
    return static_cast<T>(kHigh ? p >> 16 : p);
  }
  template <class T>
  static int64_t part(T a) {
    if (std::is_signed_v<T>) return static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8;
    return static_cast<uint32_t>(a) & 0xffffffu;
  }
};
template <bool kHigh>
struct Mad24 {
  template <class T>
  static T f(T a, T b, T c) { return Add::f(Mul24<kHigh>::f(a, b), c); }
};
struct Mad24HiSat {
  static int32_t f(int32_t a, int32_t b, int32_t c) { return AddSat::clamp(int64_t{Mul24<true>::f(a, b)} + c); }
};
// Division by zero gives all ones and the remainder the dividend, as the instruction sequences of the hardware do.
struct Div {
  template <class T>
  static T f(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub::f(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T f(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Abs {
  template <class T>
  static T f(T a) { return a < 0 ? Sub::f(T{0}, a) : a; }
};
struct Neg {
  template <class T>
  static T f(T a) { return Sub::f(T{0}, a); }
};
struct Min {
  template <class T>
  static T f(T a, T b) { return a < b ? a : b; }
};
struct Max {
  template <class T>
  static T f(T a, T b) { return a > b ? a : b; }
};
struct Relu {
  template <class Op, class T>
  static T apply(T a, T b) { return Max::f(Op::f(a, b), T{0}); }
};
struct MinRelu {
  template <class T>
  static T f(T a, T b) { return Relu::apply<Min>(a, b); }
};
struct MaxRelu {
  template <class T>
  static T f(T a, T b) { return Relu::apply<Max>(a, b); }
};
struct Sad {
  template <class T>
  static T f(T a, T b, T c) { return Add::f(c, a < b ? Sub::f(b, a) : Sub::f(a, b)); }
};

template <class Op, class T>
struct Halves {  // min / max / add on packed 16-bit pairs
  static uint32_t f(uint32_t a, uint32_t b) {
    const auto lo = static_cast<uint16_t>(Op::f(static_cast<T>(a), static_cast<T>(b)));
    const auto hi = static_cast<uint16_t>(Op::f(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return static_cast<uint32_t>(hi) << 16 | lo;
  }
};

// imm: a signed, b signed. c is 32 bits.
int32_t byte_of(uint32_t x, int k, bool is_signed) {
  const auto b = static_cast<uint8_t>(x >> (8 * k));
  return is_signed ? static_cast<int8_t>(b) : b;
}

Step dp4a(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[3]);
  const bool sa = i.imm[0] != 0, sb = i.imm[1] != 0;
  each_lane(m, [&](int l) {
    uint32_t sum = c[l];
    for (int k = 0; k < 4; ++k) sum += static_cast<uint32_t>(byte_of(a[l], k, sa) * byte_of(b[l], k, sb));
    d[l] = sum;
  });
  return Step::next;
}

// imm: a signed, b signed, use the upper bytes of b.
Step dp2a(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[3]);
  const bool sa = i.imm[0] != 0, sb = i.imm[1] != 0;
  const int first = i.imm[2] ? 2 : 0;
  each_lane(m, [&](int l) {
    uint32_t sum = c[l];
    for (int k = 0; k < 2; ++k) {
      const auto half = static_cast<uint16_t>(a[l] >> (16 * k));
      const int32_t x = sa ? static_cast<int16_t>(half) : half;
      sum += static_cast<uint32_t>(x * byte_of(b[l], first + k, sb));
    }
    d[l] = sum;
  });
  return Step::next;
}

// Extended precision. imm: writes the carry, reads the carry. Subtraction carries a borrow.
template <class T, bool kSubtract>
Step carry(Warp& w, const Instr& i, Mask m) {
  auto* d = slot<T>(w, i.ops[0]);
  const auto *a = slot<T>(w, i.ops[1]), *b = slot<T>(w, i.ops[2]);
  Mask out = 0;
  each_lane(m, [&](int l) {
    const T in = i.imm[1] ? (w.carry >> l & 1) : 0;
    const T x = a[l], y = b[l];
    const unsigned __int128 wide = kSubtract ? static_cast<unsigned __int128>(x) - y - in
                                             : static_cast<unsigned __int128>(x) + y + in;
    d[l] = static_cast<T>(wide);
    if (wide >> (8 * sizeof(T)) & 1) out |= 1u << l;
  });
  if (i.imm[0]) w.carry = (w.carry & ~m) | out;
  return Step::next;
}

// mad with carries. imm: writes the carry, reads the carry, high half.
template <class T>
Step mad_carry(Warp& w, const Instr& i, Mask m) {
  auto* d = slot<T>(w, i.ops[0]);
  const auto *a = slot<T>(w, i.ops[1]), *b = slot<T>(w, i.ops[2]), *c = slot<T>(w, i.ops[3]);
  Mask out = 0;
  each_lane(m, [&](int l) {
    const T in = i.imm[1] ? (w.carry >> l & 1) : 0;
    const T p = i.imm[2] ? MulHi::f(get<T>(a[l]), get<T>(b[l])) : MulLo::f(get<T>(a[l]), get<T>(b[l]));
    using U = Unsigned<T>;
    const unsigned __int128 wide = static_cast<unsigned __int128>(static_cast<U>(p)) + static_cast<U>(c[l]) + static_cast<U>(in);
    d[l] = put<T>(static_cast<T>(static_cast<U>(wide)));
    if (wide >> (8 * sizeof(T)) & 1) out |= 1u << l;
  });
  if (i.imm[0]) w.carry = (w.carry & ~m) | out;
  return Step::next;
}

template <class T>
void add_typed(Registry& r, const std::string& t) {
  r.add("add." + t, binary<T, T, Add>);
  r.add("sub." + t, binary<T, T, Sub>);
  r.add("mul.lo." + t, binary<T, T, MulLo>);
  r.add("mul.hi." + t, binary<T, T, MulHi>);
  r.add("mad.lo." + t, ternary<T, T, T, MadLo>);
  r.add("mad.hi." + t, ternary<T, T, T, MadHi>);
  r.add("sad." + t, ternary<T, T, T, Sad>);
  r.add("div." + t, binary<T, T, Div>);
  r.add("rem." + t, binary<T, T, Rem>);
  r.add("min." + t, binary<T, T, Min>);
  r.add("max." + t, binary<T, T, Max>);
  if constexpr (std::is_signed_v<T>) {
    r.add("abs." + t, unary<T, T, Abs>);
    r.add("neg." + t, unary<T, T, Neg>);
  }
  if constexpr (sizeof(T) < 8) {
    r.add("mul.wide." + t, binary<Wide<T>, T, MulWide>);
    r.add("mad.wide." + t, ternary<Wide<T>, T, Wide<T>, MadWide>);
  }
  if constexpr (sizeof(T) >= 4) r.add("mad.cc." + t, mad_carry<T>);
}

template <class T>
void add_24(Registry& r, const std::string& t) {
  r.add("mul24.lo." + t, binary<T, T, Mul24<false>>);
  r.add("mul24.hi." + t, binary<T, T, Mul24<true>>);
  r.add("mad24.lo." + t, ternary<T, T, T, Mad24<false>>);
  r.add("mad24.hi." + t, ternary<T, T, T, Mad24<true>>);
}

}  // namespace

void register_integer(Registry& r) {
  add_typed<int16_t>(r, "s16");
  add_typed<uint16_t>(r, "u16");
  add_typed<int32_t>(r, "s32");
  add_typed<uint32_t>(r, "u32");
  add_typed<int64_t>(r, "s64");
  add_typed<uint64_t>(r, "u64");
  add_24<int32_t>(r, "s32");
  add_24<uint32_t>(r, "u32");
  r.add("add.sat.s32", binary<int32_t, int32_t, AddSat>);
  r.add("sub.sat.s32", binary<int32_t, int32_t, SubSat>);
  r.add("mad.hi.sat.s32", ternary<int32_t, int32_t, int32_t, MadHiSat>);
  r.add("min.relu.s32", binary<int32_t, int32_t, MinRelu>);
  r.add("max.relu.s32", binary<int32_t, int32_t, MaxRelu>);
  r.add("mad24.hi.sat.s32", ternary<int32_t, int32_t, int32_t, Mad24HiSat>);
  r.add("min.relu.s16x2", binary<uint32_t, uint32_t, Halves<MinRelu, int16_t>>);
  r.add("max.relu.s16x2", binary<uint32_t, uint32_t, Halves<MaxRelu, int16_t>>);
  r.add("min.s16x2", binary<uint32_t, uint32_t, Halves<Min, int16_t>>);
  r.add("min.u16x2", binary<uint32_t, uint32_t, Halves<Min, uint16_t>>);
  r.add("max.s16x2", binary<uint32_t, uint32_t, Halves<Max, int16_t>>);
  r.add("max.u16x2", binary<uint32_t, uint32_t, Halves<Max, uint16_t>>);
  r.add("add.s16x2", binary<uint32_t, uint32_t, Halves<Add, int16_t>>);
  r.add("add.u16x2", binary<uint32_t, uint32_t, Halves<Add, uint16_t>>);
  r.add("add.cc.u32", carry<uint32_t, false>);
  r.add("add.cc.u64", carry<uint64_t, false>);
  r.add("sub.cc.u32", carry<uint32_t, true>);
  r.add("sub.cc.u64", carry<uint64_t, true>);
  r.add("dp4a", dp4a);
  r.add("dp2a", dp2a);
}

}  // namespace tilewright::vgpu
