// f32 and f64 arithmetic and the special functions. imm of every instruction here: flush subnormals, saturate, rounding.
#include "lanes.h"
#include "float_lanes.h"
#include "numeric.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

template <class T>
T in(T x, bool ftz) {
  return ftz ? flush(x) : x;
}

template <class T>
T out(T x, const Instr& i) {
  if (std::is_same_v<T, float> && std::isnan(x)) x = get<T>(static_cast<Store<T>>(0x7fffffffu));
  if (i.imm[0]) x = flush(x);
  return i.imm[1] ? saturate(x) : x;
}

bool plain(const Instr& i, Mask m) { return m == kFull && !(i.imm[0] | i.imm[1] | i.imm[2]); }

struct Add {
  template <class T>
  static T f(T a, T b) { return rounded_add(a, b); }
};
struct Sub {
  template <class T>
  static T f(T a, T b) { return rounded_add(a, -b); }
};
struct Mul {
  template <class T>
  static T f(T a, T b) { return rounded_mul(a, b); }
};
struct Div {
  template <class T>
  static T f(T a, T b) { return rounded_div(a, b); }
};

using Lanes2 = void (*)(float*, const float*, const float*);

template <class T, class Op, Lanes2 kFast>
Step arithmetic(Warp& w, const Instr& i, Mask m) {
  if constexpr (std::is_same_v<T, float>) {
    if (plain(i, m)) {
      kFast(w.f32(i.ops[0]), w.f32(i.ops[1]), w.f32(i.ops[2]));
      return Step::next;
    }
  }
  auto* d = slot<T>(w, i.ops[0]);
  const auto *a = slot<T>(w, i.ops[1]), *b = slot<T>(w, i.ops[2]);
  const RoundScope scope(static_cast<Round>(i.imm[2]));
  each_lane(m, [&](int l) {
    d[l] = put<T>(out(Op::f(in(get<T>(a[l]), i.imm[0]), in(get<T>(b[l]), i.imm[0])), i));
  });
  return Step::next;
}

template <class T>
Step fma(Warp& w, const Instr& i, Mask m) {
  if constexpr (std::is_same_v<T, float>) {
    if (plain(i, m)) {
      lanes_fma(w.f32(i.ops[0]), w.f32(i.ops[1]), w.f32(i.ops[2]), w.f32(i.ops[3]));
      return Step::next;
    }
  }
  auto* d = slot<T>(w, i.ops[0]);
  const auto *a = slot<T>(w, i.ops[1]), *b = slot<T>(w, i.ops[2]), *c = slot<T>(w, i.ops[3]);
  const RoundScope scope(static_cast<Round>(i.imm[2]));
  each_lane(m, [&](int l) {
    const bool z = i.imm[0] != 0;
    d[l] = put<T>(out(rounded_fma(in(get<T>(a[l]), z), in(get<T>(b[l]), z), in(get<T>(c[l]), z)), i));
  });
  return Step::next;
}

// min and max. imm[1]: bit 0 NaN wins, bit 1 xorsign.abs.
template <class T, bool kMax>
T pick(T a, T b, int64_t flags) {
  bool negative = false;
  if (flags & 2) {
    negative = std::signbit(a) != std::signbit(b);
    a = std::fabs(a);
    b = std::fabs(b);
  }
  T r;
  if (std::isnan(a) || std::isnan(b)) {
    if ((flags & 1) || (std::isnan(a) && std::isnan(b))) return get<T>(sizeof(T) == 4 ? 0x7fffffffu : 0x7ff8000000000000u);
    r = std::isnan(a) ? b : a;
  } else if (a == b) {
    r = std::signbit(a) == kMax ? b : a;
  } else {
    r = (a > b) == kMax ? a : b;
  }
  return flags & 2 ? std::copysign(r, negative ? T{-1} : T{1}) : r;
}

template <class T, bool kMax>
Step extreme(Warp& w, const Instr& i, Mask m) {
  if constexpr (std::is_same_v<T, float>) {
    if (plain(i, m)) {
      (kMax ? lanes_max : lanes_min)(w.f32(i.ops[0]), w.f32(i.ops[1]), w.f32(i.ops[2]));
      return Step::next;
    }
  }
  auto* d = slot<T>(w, i.ops[0]);
  const auto *a = slot<T>(w, i.ops[1]), *b = slot<T>(w, i.ops[2]);
  const bool z = i.imm[0] != 0;
  each_lane(m, [&](int l) { d[l] = put<T>(pick<T, kMax>(in(get<T>(a[l]), z), in(get<T>(b[l]), z), i.imm[1])); });
  return Step::next;
}

struct Abs {
  template <class T>
  static T f(T a) { return std::fabs(a); }
};
struct Neg {
  template <class T>
  static T f(T a) { return -a; }
};
struct Sqrt {
  template <class T>
  static T f(T a) { return rounded_sqrt(a); }
};
struct Rcp {
  template <class T>
  static T f(T a) { return rounded_div(T{1}, a); }
};
struct Rsqrt {
  template <class T>
  static T f(T a) { return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a))); }
};
struct Sin {
  static float f(float a) { return static_cast<float>(std::sin(static_cast<double>(a))); }
};
struct Cos {
  static float f(float a) { return static_cast<float>(std::cos(static_cast<double>(a))); }
};
struct Lg2 {
  static float f(float a) { return static_cast<float>(std::log2(static_cast<double>(a))); }
};
struct Ex2 {
  static float f(float a) { return static_cast<float>(std::exp2(static_cast<double>(a))); }
};
struct Tanh {
  static float f(float a) { return static_cast<float>(std::tanh(static_cast<double>(a))); }
};

template <class T, class Op>
Step function(Warp& w, const Instr& i, Mask m) {
  auto* d = slot<T>(w, i.ops[0]);
  const auto* a = slot<T>(w, i.ops[1]);
  const RoundScope scope(static_cast<Round>(i.imm[2]));
  each_lane(m, [&](int l) { d[l] = put<T>(out(Op::f(in(get<T>(a[l]), i.imm[0])), i)); });
  return Step::next;
}

Step ex2(Warp& w, const Instr& i, Mask m) {
  if (!plain(i, m) && !(m == kFull && i.imm[0] && !i.imm[1])) return function<float, Ex2>(w, i, m);
  float* d = w.f32(i.ops[0]);
  lanes_exp2(d, w.f32(i.ops[1]));
  if (i.imm[0])
    for (int l = 0; l < kLanes; ++l) d[l] = flush(d[l]);
  return Step::next;
}

// rcp and rsqrt .approx.ftz.f64: the low words of operand and result are zero, subnormals are too; NaN is 0x7fffffff00000000.
template <class Op>
Step gross(Warp& w, const Instr& i, Mask m) {
  uint64_t* d = w.r64(i.ops[0]);
  const uint64_t* a = w.r64(i.ops[1]);
  const auto flushed = [](double x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0, x) : x; };
  each_lane(m, [&](int l) {
    const double r = flushed(Op::f(flushed(get<double>(a[l] & ~uint64_t{0xffffffff}))));
    d[l] = std::isnan(r) ? 0x7fffffff00000000u : put<double>(r) & ~uint64_t{0xffffffff};
  });
  return Step::next;
}

template <class T>
Step copysign(Warp& w, const Instr& i, Mask m) {  // sign of a, magnitude of b
  auto* d = slot<T>(w, i.ops[0]);
  const auto *a = slot<T>(w, i.ops[1]), *b = slot<T>(w, i.ops[2]);
  each_lane(m, [&](int l) { d[l] = put<T>(std::copysign(get<T>(b[l]), get<T>(a[l]))); });
  return Step::next;
}

// imm[0]: 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal.
template <class T>
Step testp(Warp& w, const Instr& i, Mask m) {
  const auto* a = slot<T>(w, i.ops[1]);
  Mask r = 0;
  each_lane(m, [&](int l) {
    const int c = std::fpclassify(get<T>(a[l]));
    const bool is[] = {c != FP_NAN && c != FP_INFINITE, c == FP_INFINITE, c != FP_NAN, c == FP_NAN,
                       c == FP_NORMAL || c == FP_ZERO, c == FP_SUBNORMAL};
    if (is[i.imm[0]]) r |= 1u << l;
  });
  w.set_pred(i.ops[0], r, m);
  return Step::next;
}

template <class T>
void add_typed(Registry& r, const std::string& t) {
  r.add("add." + t, arithmetic<T, Add, lanes_add>);
  r.add("sub." + t, arithmetic<T, Sub, lanes_sub>);
  r.add("mul." + t, arithmetic<T, Mul, lanes_mul>);
  r.add("div." + t, arithmetic<T, Div, lanes_div>);
  r.add("fma." + t, fma<T>);
  r.add("min." + t, extreme<T, false>);
  r.add("max." + t, extreme<T, true>);
  r.add("abs." + t, function<T, Abs>);
  r.add("neg." + t, function<T, Neg>);
  r.add("sqrt." + t, function<T, Sqrt>);
  r.add("rcp." + t, function<T, Rcp>);
  r.add("rsqrt." + t, function<T, Rsqrt>);
  r.add("copysign." + t, copysign<T>);
  r.add("testp." + t, testp<T>);
}

}  // namespace

void register_float(Registry& r) {
  add_typed<float>(r, "f32");
  add_typed<double>(r, "f64");
  r.add("rcp.gross.f64", gross<Rcp>);
  r.add("rsqrt.gross.f64", gross<Rsqrt>);
  r.add("sin.f32", function<float, Sin>);
  r.add("cos.f32", function<float, Cos>);
  r.add("lg2.f32", function<float, Lg2>);
  r.add("ex2.f32", ex2);
  r.add("tanh.f32", function<float, Tanh>);
}

}  // namespace tilewright::vgpu
