// setp, set, selp, slct.
#include <cmath>

#include "lanes.h"
#include "numeric.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

enum Compare : int64_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

template <class T, class F>
Mask collect(const Store<T>* a, const Store<T>* b, F f) {
  Mask r = 0;
  for (int l = 0; l < kLanes; ++l) r |= static_cast<Mask>(f(get<T>(a[l]), get<T>(b[l])) ? 1 : 0) << l;
  return r;
}

template <class T>
Mask compare(int64_t op, const Store<T>* a, const Store<T>* b) {
  switch (op) {
    case kEq: return collect<T>(a, b, [](T x, T y) { return x == y && x == x && y == y; });
    case kNe: return collect<T>(a, b, [](T x, T y) { return x < y || x > y; });
    case kLt: return collect<T>(a, b, [](T x, T y) { return x < y; });
    case kLe: return collect<T>(a, b, [](T x, T y) { return x <= y; });
    case kGt: return collect<T>(a, b, [](T x, T y) { return x > y; });
    case kGe: return collect<T>(a, b, [](T x, T y) { return x >= y; });
    case kEqu: return collect<T>(a, b, [](T x, T y) { return !(x < y || x > y); });
    case kNeu: return collect<T>(a, b, [](T x, T y) { return !(x == y); });
    case kLtu: return collect<T>(a, b, [](T x, T y) { return !(x >= y); });
    case kLeu: return collect<T>(a, b, [](T x, T y) { return !(x > y); });
    case kGtu: return collect<T>(a, b, [](T x, T y) { return !(x <= y); });
    case kGeu: return collect<T>(a, b, [](T x, T y) { return !(x < y); });
    case kNum: return collect<T>(a, b, [](T x, T y) { return x == x && y == y; });
    default: return collect<T>(a, b, [](T x, T y) { return !(x == x && y == y); });
  }
}

enum Source : uint8_t { kPlain, kHalf, kBfloat };

// The lanes where the comparison holds. imm: comparison, boolean operation, flush.
template <class T, Source kSource>
Mask compared(Warp& w, const Instr& i, uint32_t first) {
  const auto *a = slot<T>(w, i.ops[first]), *b = slot<T>(w, i.ops[first + 1]);
  if constexpr (std::is_floating_point_v<T>) {
    if (kSource != kPlain || i.imm[2]) {
      Store<T> x[kLanes], y[kLanes];
      auto widen = [&](Store<T> bits) {
        const auto low = static_cast<uint16_t>(bits);
        T value = kSource == kHalf ? float_of_half(low) : kSource == kBfloat ? float_of_bf16(low) : get<T>(bits);
        if (i.imm[2]) value = kSource == kHalf && std::fabs(value) < T(0x1p-14) ? std::copysign(T{0}, value) : flush(value);
        return put<T>(value);
      };
      for (int l = 0; l < kLanes; ++l) {
        x[l] = widen(a[l]);
        y[l] = widen(b[l]);
      }
      return compare<T>(i.imm[0], x, y);
    }
  }
  return compare<T>(i.imm[0], a, b);
}

Mask combine(int64_t op, Mask r, Mask c) {
  switch (op) {
    case 1: return r & c;
    case 2: return r | c;
    case 3: return r ^ c;
    default: return r;
  }
}

template <class T, Source kSource>
Step setp(Warp& w, const Instr& i, Mask m) {  // p, q, a, b [, c]
  const Mask r = compared<T, kSource>(w, i, 2);
  const Mask c = i.imm[1] ? w.pred(i.ops[4]) : 0;
  const Mask p = combine(i.imm[1], r, c), q = combine(i.imm[1], ~r, c);
  w.set_pred(i.ops[0], p, m);
  w.set_pred(i.ops[1], q, m);
  return Step::next;
}

// imm[3]: bits that mean true (1.0f for an f32 destination).
template <class T, Source kSource>
Step set(Warp& w, const Instr& i, Mask m) {  // d, a, b [, c]
  const Mask r = combine(i.imm[1], compared<T, kSource>(w, i, 1), i.imm[1] ? w.pred(i.ops[3]) : 0);
  uint32_t* d = w.r32(i.ops[0]);
  const auto yes = static_cast<uint32_t>(i.imm[3]);
  each_lane(m, [&](int l) { d[l] = r >> l & 1 ? yes : 0; });
  return Step::next;
}

// Packed halves. setp: p = low, q = high. imm as above.
template <Source kSource>
Mask compare_half(Warp& w, const Instr& i, uint32_t first, int shift) {
  const uint32_t *a = w.r32(i.ops[first]), *b = w.r32(i.ops[first + 1]);
  uint32_t x[kLanes], y[kLanes];
  auto widen = [&](uint32_t bits) {
    const auto part = static_cast<uint16_t>(bits >> shift);
    const float value = kSource == kHalf ? float_of_half(part) : float_of_bf16(part);
    return put<float>(kSource == kHalf && i.imm[2] && std::fabs(value) < 0x1p-14f ? std::copysign(0.0f, value) : value);
  };
  for (int l = 0; l < kLanes; ++l) {
    x[l] = widen(a[l]);
    y[l] = widen(b[l]);
  }
  return compare<float>(i.imm[0], x, y);
}

template <Source kSource>
Step setp_pair(Warp& w, const Instr& i, Mask m) {
  const Mask c = i.imm[1] ? w.pred(i.ops[4]) : 0;
  const Mask p = combine(i.imm[1], compare_half<kSource>(w, i, 2, 0), c);
  const Mask q = combine(i.imm[1], compare_half<kSource>(w, i, 2, 16), c);
  w.set_pred(i.ops[0], p, m);
  w.set_pred(i.ops[1], q, m);
  return Step::next;
}

template <Source kSource>
Step set_pair(Warp& w, const Instr& i, Mask m) {  // imm[3]: true of the low half; imm[4]: of the high half
  const Mask c = i.imm[1] ? w.pred(i.ops[3]) : 0;
  const Mask low = combine(i.imm[1], compare_half<kSource>(w, i, 1, 0), c);
  const Mask high = combine(i.imm[1], compare_half<kSource>(w, i, 1, 16), c);
  uint32_t* d = w.r32(i.ops[0]);
  const auto yes = static_cast<uint32_t>(i.imm[3]);
  each_lane(m, [&](int l) { d[l] = (low >> l & 1 ? yes : 0) | (high >> l & 1 ? yes << 16 : 0); });
  return Step::next;
}

template <class T>
Step selp(Warp& w, const Instr& i, Mask m) {
  T* d = slot<T>(w, i.ops[0]);
  const T *a = slot<T>(w, i.ops[1]), *b = slot<T>(w, i.ops[2]);
  const Mask p = w.pred(i.ops[3]);
  each_lane(m, [&](int l) { d[l] = p >> l & 1 ? a[l] : b[l]; });
  return Step::next;
}

// imm: flush the selector.
template <class T, class C>
Step slct(Warp& w, const Instr& i, Mask m) {
  T* d = slot<T>(w, i.ops[0]);
  const T *a = slot<T>(w, i.ops[1]), *b = slot<T>(w, i.ops[2]);
  const auto* c = slot<C>(w, i.ops[3]);
  each_lane(m, [&](int l) {
    C selector = get<C>(c[l]);
    if constexpr (std::is_floating_point_v<C>) selector = i.imm[0] ? flush(selector) : selector;
    d[l] = selector >= C{0} ? a[l] : b[l];
  });
  return Step::next;
}

template <class T, Source kSource = kPlain>
void add_typed(Registry& r, const std::string& t) {
  r.add("setp." + t, setp<T, kSource>);
  r.add("set." + t, set<T, kSource>);
}

}  // namespace

void register_compare(Registry& r) {
  add_typed<int16_t>(r, "s16");
  add_typed<uint16_t>(r, "u16");
  add_typed<int32_t>(r, "s32");
  add_typed<uint32_t>(r, "u32");
  add_typed<int64_t>(r, "s64");
  add_typed<uint64_t>(r, "u64");
  add_typed<float>(r, "f32");
  add_typed<double>(r, "f64");
  add_typed<float, kHalf>(r, "f16");
  add_typed<float, kBfloat>(r, "bf16");
  r.add("setp.f16x2", setp_pair<kHalf>);
  r.add("setp.bf16x2", setp_pair<kBfloat>);
  r.add("set.f16x2", set_pair<kHalf>);
  r.add("set.bf16x2", set_pair<kBfloat>);
  r.add("selp.32", selp<uint32_t>);
  r.add("selp.64", selp<uint64_t>);
  r.add("slct.32.s32", slct<uint32_t, int32_t>);
  r.add("slct.64.s32", slct<uint64_t, int32_t>);
  r.add("slct.32.f32", slct<uint32_t, float>);
  r.add("slct.64.f32", slct<uint64_t, float>);
}

}  // namespace tilewright::vgpu
