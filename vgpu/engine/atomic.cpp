// atom and red on global, shared and generic memory. The destination of red is a sink.
#include <cstring>

#include "address.h"
#include "lanes.h"
#include "numeric.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

// Applies `f` (old -> new) atomically against the other host threads and returns the old value.
template <class U, class F>
U update(uint8_t* p, F f) {
  U* at = reinterpret_cast<U*>(p);
  U old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(at, &old, f(old), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return old;
}

struct Add {
  template <class T>
  static T f(T a, T b) { return static_cast<T>(a + b); }
};
struct Min {
  template <class T>
  static T f(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
    else return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T f(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
    else return a > b ? a : b;
  }
};
struct And {
  template <class T>
  static T f(T a, T b) { return a & b; }
};
struct Or {
  template <class T>
  static T f(T a, T b) { return a | b; }
};
struct Xor {
  template <class T>
  static T f(T a, T b) { return a ^ b; }
};
struct Exch {
  template <class T>
  static T f(T, T b) { return b; }
};
struct Inc {
  template <class T>
  static T f(T a, T b) { return a >= b ? 0 : a + 1; }
};
struct Dec {
  template <class T>
  static T f(T a, T b) { return a == 0 || a > b ? b : a - 1; }
};

template <class T, class Op>
struct Plain {  // integers, f32, f64: bits of T
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  static Bits f(Bits a, Bits b) { return static_cast<Bits>(put<T>(Op::f(get<T>(a), get<T>(b)))); }
};

template <bool kBf, class Op>
uint32_t half(uint32_t a, uint32_t b) {
  if constexpr (kBf) return bf16_of_float(Op::f(float_of_bf16(a & 0xffff), float_of_bf16(b & 0xffff)));
  else return half_of_float(Op::f(float_of_half(static_cast<uint16_t>(a)), float_of_half(static_cast<uint16_t>(b))));
}
template <bool kBf, class Op>
struct Half {
  using Bits = uint16_t;
  static Bits f(Bits a, Bits b) { return static_cast<Bits>(half<kBf, Op>(a, b)); }
};
template <bool kBf, class Op>
struct HalfPair {
  using Bits = uint32_t;
  static Bits f(Bits a, Bits b) { return half<kBf, Op>(a, b) | half<kBf, Op>(a >> 16, b >> 16) << 16; }
};

Space space_of(int64_t number) { return static_cast<Space>(number); }

// Locations to change: readable (initialised) and writable.
bool atomic_places(Warp& w, const Instr& i, Mask m, uint32_t base, uint32_t bytes, Pointers& p, int64_t offset, int64_t base_bytes) {
  uint64_t address[kLanes];
  addresses(w, base, offset, base_bytes, address);
  return locate(w, i, m, space_of(i.imm[0]), address, bytes, false, p) &&
         locate(w, i, m, space_of(i.imm[0]), address, bytes, true, p);
}

// ops: destinations (n), base, sources (n). imm: space, elements, offset, base bytes.
template <class Op>
Step atomic(Warp& w, const Instr& i, Mask m) {
  using Bits = typename Op::Bits;
  const auto count = static_cast<uint32_t>(i.imm[1]);
  Pointers p;
  if (!atomic_places(w, i, m, i.ops[count], sizeof(Bits) * count, p, i.imm[2], i.imm[3])) return Step::fault;
  if (w.block->observer) observe_atomic(w, i, m, p, sizeof(Bits) * count);
  using Slot = Store<Bits>;
  for (uint32_t k = 0; k < count; ++k) {
    auto* d = reinterpret_cast<Slot*>(w.file + i.ops[k]);
    const auto* b = reinterpret_cast<const Slot*>(w.file + i.ops[count + 1 + k]);
    for (Mask left = m; left; left &= left - 1) {
      const int l = __builtin_ctz(left);
      const auto operand = static_cast<Bits>(b[l]);
      d[l] = update<Bits>(p.at[l] + k * sizeof(Bits), [&](Bits old) {
        const Bits now = Op::f(old, operand);
        w.wrote |= now != old;
        return now;
      });
    }
  }
  if (w.block->observer) observed_atomic(w, i, m, p);
  w.looked_at = p.at[__builtin_ctz(m)];
  w.block->notify();
  return Step::next;
}

// ops: destination, base, compare, value. imm: space, elements, offset, base bytes.
template <class Bits>
Step cas(Warp& w, const Instr& i, Mask m) {
  Pointers p;
  if (!atomic_places(w, i, m, i.ops[1], sizeof(Bits), p, i.imm[2], i.imm[3])) return Step::fault;
  if (w.block->observer) observe_atomic(w, i, m, p, sizeof(Bits));
  using Slot = Store<Bits>;
  auto* d = reinterpret_cast<Slot*>(w.file + i.ops[0]);
  const auto* b = reinterpret_cast<const Slot*>(w.file + i.ops[2]);
  const auto* c = reinterpret_cast<const Slot*>(w.file + i.ops[3]);
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    Bits expected = static_cast<Bits>(b[l]);
    __atomic_compare_exchange_n(reinterpret_cast<Bits*>(p.at[l]), &expected, static_cast<Bits>(c[l]), false,
                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    w.wrote |= expected == static_cast<Bits>(b[l]) && b[l] != c[l];
    d[l] = expected;
  }
  if (w.block->observer) observed_atomic(w, i, m, p);
  w.looked_at = p.at[__builtin_ctz(m)];
  w.block->notify();
  return Step::next;
}

struct Wide {
  uint64_t low, high;
};

// 16 bytes at once against the other host threads, which may use narrower atomics on parts of them.
#ifdef __x86_64__
__attribute__((target("cx16")))
#endif
Wide exchange_wide(uint8_t* p, const Wide* expected, Wide value) {
  auto* at = reinterpret_cast<unsigned __int128*>(p);
  const unsigned __int128 now = static_cast<unsigned __int128>(value.high) << 64 | value.low;
  unsigned __int128 seen = expected ? static_cast<unsigned __int128>(expected->high) << 64 | expected->low : 0;
  unsigned __int128 old = __sync_val_compare_and_swap(at, seen, now);
  while (!expected && old != seen) {
    seen = old;
    old = __sync_val_compare_and_swap(at, seen, now);
  }
  return {static_cast<uint64_t>(old), static_cast<uint64_t>(old >> 64)};
}

// ops: destination, base, [compare], value; 128 bits are two slots. imm: space, elements, offset, base bytes.
template <bool kCompares>
Step swap_wide(Warp& w, const Instr& i, Mask m) {
  Pointers p;
  if (!atomic_places(w, i, m, i.ops[2], 16, p, i.imm[2], i.imm[3])) return Step::fault;
  if (w.block->observer) observe_atomic(w, i, m, p, 16);
  const uint32_t* compare = i.ops + 3;
  const uint32_t* value = i.ops + (kCompares ? 5 : 3);
  const auto read = [&](const uint32_t* ops, int l) { return Wide{w.r64(ops[0])[l], w.r64(ops[1])[l]}; };
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const Wide expected = read(compare, l), now = read(value, l);
    const Wide old = exchange_wide(p.at[l], kCompares ? &expected : nullptr, now);
    const bool same = old.low == now.low && old.high == now.high;
    const bool swapped = !kCompares || (old.low == expected.low && old.high == expected.high);
    w.wrote |= swapped && !same;
    w.r64(i.ops[0])[l] = old.low;
    w.r64(i.ops[1])[l] = old.high;
  }
  if (w.block->observer) observed_atomic(w, i, m, p);
  w.looked_at = p.at[__builtin_ctz(m)];
  w.block->notify();
  return Step::next;
}

template <class T>
void add_integer(Registry& r, const std::string& t) {
  r.add("atom.add." + t, atomic<Plain<T, Add>>);
  r.add("atom.min." + t, atomic<Plain<T, Min>>);
  r.add("atom.max." + t, atomic<Plain<T, Max>>);
}

template <class T>
void add_bits(Registry& r, const std::string& t) {
  r.add("atom.and." + t, atomic<Plain<T, And>>);
  r.add("atom.or." + t, atomic<Plain<T, Or>>);
  r.add("atom.xor." + t, atomic<Plain<T, Xor>>);
  r.add("atom.exch." + t, atomic<Plain<T, Exch>>);
}

template <bool kBf>
void add_half(Registry& r, const std::string& t) {
  r.add("atom.add." + t, atomic<Half<kBf, Add>>);
  r.add("atom.min." + t, atomic<Half<kBf, Min>>);
  r.add("atom.max." + t, atomic<Half<kBf, Max>>);
  r.add("atom.add." + t + "x2", atomic<HalfPair<kBf, Add>>);
  r.add("atom.min." + t + "x2", atomic<HalfPair<kBf, Min>>);
  r.add("atom.max." + t + "x2", atomic<HalfPair<kBf, Max>>);
}

}  // namespace

void register_atomic(Registry& r) {
  add_integer<int32_t>(r, "s32");
  add_integer<uint32_t>(r, "u32");
  add_integer<int64_t>(r, "s64");
  add_integer<uint64_t>(r, "u64");
  r.add("atom.add.f32", atomic<Plain<float, Add>>);
  r.add("atom.add.f64", atomic<Plain<double, Add>>);
  r.add("atom.inc.u32", atomic<Plain<uint32_t, Inc>>);
  r.add("atom.dec.u32", atomic<Plain<uint32_t, Dec>>);
  add_bits<uint32_t>(r, "b32");
  add_bits<uint64_t>(r, "b64");
  add_half<false>(r, "f16");
  add_half<true>(r, "bf16");
  r.add("atom.cas.b16", cas<uint16_t>);
  r.add("atom.cas.b32", cas<uint32_t>);
  r.add("atom.cas.b64", cas<uint64_t>);
  r.add("atom.exch.b128", swap_wide<false>);
  r.add("atom.cas.b128", swap_wide<true>);
}

}  // namespace tilewright::vgpu
