// f16, bf16 and their packed pairs. imm of every instruction: flush, saturate (min/max:
// NaN and xorsign bits, as f32), relu + 2 * out-of-bounds NaN.
#include "lanes.h"
#include "numeric.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

struct F16 {
  static float up(uint32_t x) { return float_of_half(static_cast<uint16_t>(x)); }
  static uint32_t down(float x) { return half_of_float(x); }
  static uint32_t down_exact(double x) { return encode_small(x, kF16, Round::nearest, false); }
  static constexpr uint32_t kSmallest = 0x0400;
};
struct Bf16 {
  static float up(uint32_t x) { return float_of_bf16(x & 0xffff); }
  static uint32_t down(float x) { return bf16_of_float(x); }
  static uint32_t down_exact(double x) { return encode_small(x, kBf16, Round::nearest, false); }
  static constexpr uint32_t kSmallest = 0x0080;
};

uint32_t flush_bits(uint32_t x, uint32_t smallest) { return (x & 0x7fff) < smallest ? x & 0x8000 : x; }

template <class H>
uint32_t finish(uint32_t bits, const Instr& i) {
  if (i.imm[0]) bits = flush_bits(bits, H::kSmallest);
  if (i.imm[1]) bits = H::down(saturate(H::up(bits)));
  if (i.imm[2] & 1) bits = H::up(bits) > 0 || (bits & 0x7fff) > H::down(INFINITY) ? bits : 0;
  return bits;
}

template <class H>
float load(uint32_t bits, const Instr& i) {
  bits &= 0xffff;
  return H::up(i.imm[0] ? flush_bits(bits, H::kSmallest) : bits);
}

// f32 has more than twice the bits of either format, so rounding its result once more is exact.
struct Add {
  template <class H>
  static uint32_t f(float a, float b) { return H::down(a + b); }
};
struct Sub {
  template <class H>
  static uint32_t f(float a, float b) { return H::down(a - b); }
};
struct Mul {
  template <class H>
  static uint32_t f(float a, float b) { return H::down(a * b); }
};
struct Div {
  template <class H>
  static uint32_t f(float a, float b) { return H::down(a / b); }
};
struct Tanh {
  template <class H>
  static uint32_t f(float a) { return H::down(std::tanh(a)); }
};
struct Ex2 {
  template <class H>
  static uint32_t f(float a) { return H::down(std::exp2(a)); }
};
struct Abs {
  template <class H>
  static uint32_t f(float a) { return H::down(std::fabs(a)); }
};
struct Neg {
  template <class H>
  static uint32_t f(float a) { return H::down(-a); }
};

template <bool kPair, class F>
uint32_t halves(F f) {  // f(shift) -> 16 bits
  const uint32_t low = f(0) & 0xffff;
  if constexpr (kPair) return low | f(16) << 16;
  return low;
}

template <class H, bool kPair, class Op>
Step half_unary(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t* a = w.r32(i.ops[1]);
  each_lane(m, [&](int l) {
    d[l] = halves<kPair>([&](int s) { return finish<H>(Op::template f<H>(load<H>(a[l] >> s, i)), i); });
  });
  return Step::next;
}

template <class H, bool kPair, class Op>
Step half_binary(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]);
  each_lane(m, [&](int l) {
    d[l] = halves<kPair>(
        [&](int s) { return finish<H>(Op::template f<H>(load<H>(a[l] >> s, i), load<H>(b[l] >> s, i)), i); });
  });
  return Step::next;
}

// The NaN that a tensor map fills in for elements outside its tensor (tensor_map.cpp); fma.oob takes it as a zero product
// and sum.
bool is_outside(uint32_t bits) { return (bits & 0xffff) == 0x7fff; }

template <class H, bool kPair>
Step half_fma(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[3]);
  each_lane(m, [&](int l) {
    d[l] = halves<kPair>([&](int s) {
      if ((i.imm[2] & 2) && (is_outside(a[l] >> s) || is_outside(b[l] >> s))) return 0u;
      const double product = static_cast<double>(load<H>(a[l] >> s, i)) * load<H>(b[l] >> s, i);
      return finish<H>(H::down_exact(sum_to_odd(product, load<H>(c[l] >> s, i))), i);
    });
  });
  return Step::next;
}

template <class H, bool kMax>
uint32_t pick(uint32_t a, uint32_t b, const Instr& i) {
  if (i.imm[0]) {
    a = flush_bits(a, H::kSmallest);
    b = flush_bits(b, H::kSmallest);
  }
  uint32_t sign = 0;
  if (i.imm[1] & 2) {
    sign = (a ^ b) & 0x8000;
    a &= 0x7fff;
    b &= 0x7fff;
  }
  const float x = H::up(a), y = H::up(b);
  uint32_t r;
  if (std::isnan(x) || std::isnan(y)) {
    if ((i.imm[1] & 1) || (std::isnan(x) && std::isnan(y))) return 0x7fff;
    r = std::isnan(x) ? b : a;
  } else if (x == y) {
    r = (std::signbit(x) == kMax) ? b : a;
  } else {
    r = (x > y) == kMax ? a : b;
  }
  return i.imm[1] & 2 ? r | sign : r;
}

template <class H, bool kPair, bool kMax>
Step half_extreme(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]);
  each_lane(m, [&](int l) {
    d[l] = halves<kPair>([&](int s) { return pick<H, kMax>((a[l] >> s) & 0xffff, (b[l] >> s) & 0xffff, i); });
  });
  return Step::next;
}

template <class H, bool kPair>
void add_form(Registry& r, const std::string& t) {
  r.add("add." + t, half_binary<H, kPair, Add>);
  r.add("sub." + t, half_binary<H, kPair, Sub>);
  r.add("mul." + t, half_binary<H, kPair, Mul>);
  r.add("div." + t, half_binary<H, kPair, Div>);
  r.add("fma." + t, half_fma<H, kPair>);
  r.add("min." + t, half_extreme<H, kPair, false>);
  r.add("max." + t, half_extreme<H, kPair, true>);
  r.add("abs." + t, half_unary<H, kPair, Abs>);
  r.add("neg." + t, half_unary<H, kPair, Neg>);
  r.add("tanh." + t, half_unary<H, kPair, Tanh>);
  r.add("ex2." + t, half_unary<H, kPair, Ex2>);
}

}  // namespace

void register_half(Registry& r) {
  add_form<F16, false>(r, "f16");
  add_form<F16, true>(r, "f16x2");
  add_form<Bf16, false>(r, "bf16");
  add_form<Bf16, true>(r, "bf16x2");
}

}  // namespace tilewright::vgpu
