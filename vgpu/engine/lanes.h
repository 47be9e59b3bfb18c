// Loops over the lanes of a warp: typed views of register slots and the shapes ALU instructions come in.
#pragma once

#include <cstring>
#include <type_traits>

#include "machine.h"

namespace tilewright::vgpu {

template <class T>
using Store = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
inline Store<T>* slot(const Warp& w, uint32_t op) {
  return reinterpret_cast<Store<T>*>(w.file + op);
}

template <class T>
inline T get(Store<T> bits) {
  if constexpr (std::is_floating_point_v<T>) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  } else {
    return static_cast<T>(bits);
  }
}

// Narrow results leave the upper bits of the slot zero.
template <class T>
inline Store<T> put(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    Store<T> bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  } else {
    return static_cast<Store<T>>(static_cast<std::make_unsigned_t<T>>(value));
  }
}

template <class F>
inline void each_lane(Mask m, F f) {
  if (m == kFull)
    for (int l = 0; l < kLanes; ++l) f(l);
  else
    for (; m; m &= m - 1) f(__builtin_ctz(m));
}

// d = Op::f(a), d = Op::f(a, b), d = Op::f(a, b, c); the result type may be wider than the operands.
template <class R, class T, class Op>
Step unary(Warp& w, const Instr& i, Mask m) {
  auto* d = slot<R>(w, i.ops[0]);
  const auto* a = slot<T>(w, i.ops[1]);
  each_lane(m, [&](int l) { d[l] = put<R>(Op::f(get<T>(a[l]))); });
  return Step::next;
}

template <class R, class T, class Op>
Step binary(Warp& w, const Instr& i, Mask m) {
  auto* d = slot<R>(w, i.ops[0]);
  const auto* a = slot<T>(w, i.ops[1]);
  const auto* b = slot<T>(w, i.ops[2]);
  each_lane(m, [&](int l) { d[l] = put<R>(Op::f(get<T>(a[l]), get<T>(b[l]))); });
  return Step::next;
}

template <class R, class T, class C, class Op>
Step ternary(Warp& w, const Instr& i, Mask m) {
  auto* d = slot<R>(w, i.ops[0]);
  const auto* a = slot<T>(w, i.ops[1]);
  const auto* b = slot<T>(w, i.ops[2]);
  const auto* c = slot<C>(w, i.ops[3]);
  each_lane(m, [&](int l) { d[l] = put<R>(Op::f(get<T>(a[l]), get<T>(b[l]), get<C>(c[l]))); });
  return Step::next;
}

}  // namespace tilewright::vgpu
