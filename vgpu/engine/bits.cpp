// Logic, shifts and bit fields: and or xor not cnot lop3 shl shr shf prmt bfe bfi bmsk szext bfind brev clz popc
// fns.
#include "lanes.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

struct And {
  template <class T>
  static T f(T a, T b) { return static_cast<T>(a & b); }
};
struct Or {
  template <class T>
  static T f(T a, T b) { return static_cast<T>(a | b); }
};
struct Xor {
  template <class T>
  static T f(T a, T b) { return static_cast<T>(a ^ b); }
};
struct Not {
  template <class T>
  static T f(T a) { return static_cast<T>(~a); }
};
struct Cnot {
  template <class T>
  static T f(T a) { return a == 0; }
};
struct Clz {
  static uint32_t f(uint32_t a) { return a ? static_cast<uint32_t>(__builtin_clz(a)) : 32; }
  static uint32_t f(uint64_t a) { return a ? static_cast<uint32_t>(__builtin_clzll(a)) : 64; }
};
struct Popc {
  static uint32_t f(uint32_t a) { return static_cast<uint32_t>(__builtin_popcount(a)); }
  static uint32_t f(uint64_t a) { return static_cast<uint32_t>(__builtin_popcountll(a)); }
};
struct Brev {
  template <class T>
  static T f(T a) {
    T r = 0;
    for (unsigned k = 0; k < 8 * sizeof(T); ++k) r |= ((a >> k) & 1) << (8 * sizeof(T) - 1 - k);
    return r;
  }
};
template <bool kAmount>
struct Bfind {
  template <class T>
  static uint32_t f(T a) {
    using U = std::make_unsigned_t<T>;
    const U x = static_cast<U>(a < 0 ? ~a : a);
    if (x == 0) return UINT32_MAX;
    const uint32_t top = static_cast<uint32_t>(8 * sizeof(T) - 1) - (Clz::f(x));
    return kAmount ? static_cast<uint32_t>(8 * sizeof(T) - 1) - top : top;
  }
};
struct Bfi {
  template <class T>
  static T f(T a, T b, uint32_t at, uint32_t length) {
    constexpr uint32_t n = 8 * sizeof(T);
    at &= 0xff;
    length &= 0xff;
    if (at >= n || length == 0) return b;
    const T ones = length >= n ? ~T{0} : (T{1} << length) - 1;
    return (b & ~(ones << at)) | ((a & ones) << at);
  }
};
struct Bfe {
  template <class T>
  static T f(T a, uint32_t at, uint32_t length) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t n = 8 * sizeof(T);
    at &= 0xff;
    length &= 0xff;
    if (length == 0) return 0;
    const uint32_t top = at + length - 1 < n - 1 ? at + length - 1 : n - 1;
    const bool sign = std::is_signed_v<T> && ((static_cast<U>(a) >> top) & 1);
    U r = at >= n ? 0 : static_cast<U>(a) >> at;
    if (length < n) r &= (U{1} << length) - 1;
    if (sign) {
      const uint32_t have = at >= n ? 0 : n - at < length ? n - at : length;
      if (have < n) r |= ~U{0} << have;
    }
    return static_cast<T>(r);
  }
};

template <class T>
struct Shl {
  static T f(T a, uint32_t b) { return b >= 8 * sizeof(T) ? 0 : static_cast<T>(a << b); }
};
template <class T>
struct Shr {
  static T f(T a, uint32_t b) {
    constexpr uint32_t n = 8 * sizeof(T);
    if (b >= n) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : 0;
    return static_cast<T>(a >> b);
  }
};

template <class T, class Op>
Step shift(Warp& w, const Instr& i, Mask m) {
  auto* d = slot<T>(w, i.ops[0]);
  const auto* a = slot<T>(w, i.ops[1]);
  const uint32_t* b = w.r32(i.ops[2]);
  each_lane(m, [&](int l) { d[l] = put<T>(Op::f(get<T>(a[l]), b[l])); });
  return Step::next;
}

template <class T>
Step bfi(Warp& w, const Instr& i, Mask m) {
  T* d = slot<T>(w, i.ops[0]);
  const T *a = slot<T>(w, i.ops[1]), *b = slot<T>(w, i.ops[2]);
  const uint32_t *at = w.r32(i.ops[3]), *length = w.r32(i.ops[4]);
  each_lane(m, [&](int l) { d[l] = Bfi::f(a[l], b[l], at[l], length[l]); });
  return Step::next;
}

template <class T>
Step bfe(Warp& w, const Instr& i, Mask m) {
  auto* d = slot<T>(w, i.ops[0]);
  const auto* a = slot<T>(w, i.ops[1]);
  const uint32_t *at = w.r32(i.ops[2]), *length = w.r32(i.ops[3]);
  each_lane(m, [&](int l) { d[l] = put<T>(Bfe::f(get<T>(a[l]), at[l], length[l])); });
  return Step::next;
}

// imm: wraps (else clamps).
struct Bmsk {
  static uint32_t f(uint32_t at, uint32_t length, bool wraps) {
    if (wraps) {
      at &= 31;
      length &= 31;
    }
    if (at >= 32 || length == 0) return 0;
    const uint32_t ones = length >= 32 ? ~0u : (1u << length) - 1;
    return ones << at;
  }
};
Step bmsk(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]);
  each_lane(m, [&](int l) { d[l] = Bmsk::f(a[l], b[l], i.imm[0] != 0); });
  return Step::next;
}

// Funnel shift. imm: left, wraps (else clamps).
Step shf(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[3]);
  each_lane(m, [&](int l) {
    const uint64_t both = uint64_t{b[l]} << 32 | a[l];
    const uint32_t n = i.imm[1] ? c[l] & 31 : c[l] > 32 ? 32 : c[l];
    d[l] = static_cast<uint32_t>(i.imm[0] ? (both << n) >> 32 : both >> n);
  });
  return Step::next;
}

uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t d = 0;
  for (unsigned k = 0; k < 4; ++k) {
    const uint32_t s = selector >> (4 * k);
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (s & 7))) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    d |= byte << (8 * k);
  }
  return d;
}

// The selector of the named prmt modes for control value c (PTX ISA, prmt).
uint32_t mode_selector(int64_t mode, uint32_t c, uint32_t given) {
  static const uint16_t table[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
  };
  return mode == 0 ? given : table[mode - 1][c & 3];
}

Step prmt(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[3]);
  each_lane(m, [&](int l) { d[l] = permute(a[l], b[l], mode_selector(i.imm[0], c[l], c[l])); });
  return Step::next;
}

uint32_t looked_up(uint32_t table, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r = 0;
  for (unsigned k = 0; k < 8; ++k)
    if (table >> k & 1) r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return r;
}

Step lop3(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[3]);
  const auto table = static_cast<uint32_t>(i.imm[0]);
  each_lane(m, [&](int l) { d[l] = looked_up(table, a[l], b[l], c[l]); });
  return Step::next;
}

// ops: d, p, a, b, c, q. imm: and (else or); the table. p combines "d is not zero" with q.
Step lop3_pred(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[2]), *b = w.r32(i.ops[3]), *c = w.r32(i.ops[4]);
  const Mask q = w.pred(i.ops[5]);
  Mask some = 0;
  each_lane(m, [&](int l) {
    const uint32_t r = looked_up(static_cast<uint32_t>(i.imm[1]), a[l], b[l], c[l]);
    some |= static_cast<Mask>(r != 0) << l;
    d[l] = r;
  });
  w.set_pred(i.ops[1], i.imm[0] ? some & q : some | q, m);
  return Step::next;
}

// Extension of the low `bits` bits. imm: signed, wraps (else clamps).
Step szext(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]);
  each_lane(m, [&](int l) {
    if (!i.imm[1] && b[l] >= 32) {
      d[l] = a[l];
      return;
    }
    const uint32_t bits = b[l] & 31, low = (1u << bits) - 1;
    const bool negative = i.imm[0] && bits > 0 && (a[l] >> (bits - 1) & 1);
    d[l] = (a[l] & low) | (negative ? ~low : 0);
  });
  return Step::next;
}

// Find the n-th set bit from a base.
uint32_t nth_set(uint32_t mask, uint32_t base, int32_t offset) {
  if (base > 31) return UINT32_MAX;
  if (offset == 0) return mask >> base & 1 ? base : UINT32_MAX;
  int count = offset > 0 ? offset : -offset;
  const int step = offset > 0 ? 1 : -1;
  for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step)
    if (mask >> at & 1 && --count == 0) return static_cast<uint32_t>(at);
  return UINT32_MAX;
}
Step fns(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]), *c = w.r32(i.ops[3]);
  each_lane(m, [&](int l) { d[l] = nth_set(a[l], b[l], static_cast<int32_t>(c[l])); });
  return Step::next;
}

template <class Op>
Step pred_binary(Warp& w, const Instr& i, Mask m) {
  w.set_pred(i.ops[0], Op::f(w.pred(i.ops[1]), w.pred(i.ops[2])), m);
  return Step::next;
}
Step pred_not(Warp& w, const Instr& i, Mask m) {
  w.set_pred(i.ops[0], ~w.pred(i.ops[1]), m);
  return Step::next;
}

template <class T>
void add_logic(Registry& r, const std::string& t) {
  r.add("and." + t, binary<T, T, And>);
  r.add("or." + t, binary<T, T, Or>);
  r.add("xor." + t, binary<T, T, Xor>);
  r.add("not." + t, unary<T, T, Not>);
  r.add("cnot." + t, unary<T, T, Cnot>);
  r.add("shl." + t, shift<T, Shl<T>>);
}

template <class T>
void add_find(Registry& r, const std::string& t) {
  r.add("bfind." + t, unary<uint32_t, T, Bfind<false>>);
  r.add("bfind.shiftamt." + t, unary<uint32_t, T, Bfind<true>>);
  r.add("bfe." + t, bfe<T>);
}

}  // namespace

void register_bits(Registry& r) {
  add_logic<uint16_t>(r, "b16");
  add_logic<uint32_t>(r, "b32");
  add_logic<uint64_t>(r, "b64");
  r.add("shr.s16", shift<int16_t, Shr<int16_t>>);
  r.add("shr.u16", shift<uint16_t, Shr<uint16_t>>);
  r.add("shr.s32", shift<int32_t, Shr<int32_t>>);
  r.add("shr.u32", shift<uint32_t, Shr<uint32_t>>);
  r.add("shr.s64", shift<int64_t, Shr<int64_t>>);
  r.add("shr.u64", shift<uint64_t, Shr<uint64_t>>);
  add_find<int32_t>(r, "s32");
  add_find<uint32_t>(r, "u32");
  add_find<int64_t>(r, "s64");
  add_find<uint64_t>(r, "u64");
  r.add("clz.b32", unary<uint32_t, uint32_t, Clz>);
  r.add("clz.b64", unary<uint32_t, uint64_t, Clz>);
  r.add("popc.b32", unary<uint32_t, uint32_t, Popc>);
  r.add("popc.b64", unary<uint32_t, uint64_t, Popc>);
  r.add("brev.b32", unary<uint32_t, uint32_t, Brev>);
  r.add("brev.b64", unary<uint64_t, uint64_t, Brev>);
  r.add("bfi.b32", bfi<uint32_t>);
  r.add("bfi.b64", bfi<uint64_t>);
  r.add("bmsk", bmsk);
  r.add("shf", shf);
  r.add("prmt", prmt);
  r.add("lop3", lop3);
  r.add("lop3.pred", lop3_pred);
  r.add("szext", szext);
  r.add("fns", fns);
  r.add("and.pred", pred_binary<And>);
  r.add("or.pred", pred_binary<Or>);
  r.add("xor.pred", pred_binary<Xor>);
  r.add("not.pred", pred_not);
}

}  // namespace tilewright::vgpu
