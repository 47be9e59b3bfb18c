// mov (plain, pack, unpack), cvta, isspacep, clocks.
#include <chrono>

#include "lanes.h"
#include "launch.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

template <class T>
Step mov(Warp& w, const Instr& i, Mask m) {
  T* d = slot<T>(w, i.ops[0]);
  const T* a = slot<T>(w, i.ops[1]);
  each_lane(m, [&](int l) { d[l] = a[l]; });
  return Step::next;
}

Step mov_pred(Warp& w, const Instr& i, Mask m) {
  w.set_pred(i.ops[0], w.pred(i.ops[1]), m);
  return Step::next;
}

// imm: bits of an element, elements. Element 0 is the lowest.
template <class T>
Step pack(Warp& w, const Instr& i, Mask m) {
  T* d = slot<T>(w, i.ops[0]);
  const auto bits = static_cast<unsigned>(i.imm[0]);
  const uint32_t ones = bits == 32 ? ~0u : (1u << bits) - 1;
  each_lane(m, [&](int l) {
    T value = 0;
    for (unsigned k = 0; k < static_cast<unsigned>(i.imm[1]); ++k)
      value |= static_cast<T>(w.r32(i.ops[1 + k])[l] & ones) << (bits * k);
    d[l] = value;
  });
  return Step::next;
}

template <class T>
Step unpack(Warp& w, const Instr& i, Mask m) {
  const auto count = static_cast<unsigned>(i.imm[1]);
  const T* a = slot<T>(w, i.ops[count]);
  const auto bits = static_cast<unsigned>(i.imm[0]);
  const uint32_t ones = bits == 32 ? ~0u : (1u << bits) - 1;
  for (unsigned k = 0; k < count; ++k) {
    uint32_t* d = w.r32(i.ops[k]);
    each_lane(m, [&](int l) { d[l] = static_cast<uint32_t>(a[l] >> (bits * k)) & ones; });
  }
  return Step::next;
}

// imm: window, to (out of the window) or from (into it).
Step cvta(Warp& w, const Instr& i, Mask m) {
  uint64_t* d = w.r64(i.ops[0]);
  const uint64_t* a = w.r64(i.ops[1]);
  const uint64_t window = static_cast<uint64_t>(i.imm[0]) << kWindowShift;
  const uint64_t low = i.imm[0] ? 0xffffffffull : ~0ull;
  each_lane(m, [&](int l) { d[l] = i.imm[1] ? a[l] & low : (a[l] & low) | window; });
  return Step::next;
}

// imm: window, only the memory of the own block.
Step isspacep(Warp& w, const Instr& i, Mask m) {
  const uint64_t* a = w.r64(i.ops[1]);
  const auto own = [&](uint64_t address) {
    return !i.imm[1] || shared_owner(*w.block, static_cast<uint32_t>(address)) == w.block;
  };
  Mask r = 0;
  each_lane(m, [&](int l) {
    r |= (window_of(a[l]) == static_cast<Window>(i.imm[0]) && own(a[l]) ? 1u : 0u) << l;
  });
  w.set_pred(i.ops[0], r, m);
  return Step::next;
}

// imm: the bit of the 64-bit clock that is the lowest of the result.
template <class T>
Step clock(Warp& w, const Instr& i, Mask m) {
  T* d = slot<T>(w, i.ops[0]);
  w.read_clock = true;
  const uint64_t ns = w.frozen_clock ? w.frozen_clock : clock_now(*w.launch().run);
  each_lane(m, [&](int l) { d[l] = static_cast<T>(ns >> i.imm[0]); });
  return Step::next;
}

// imm: 0 for two halves on both sides, 1 when the target is four words, 2 when the source is.
Step mov_whole(Warp& w, const Instr& i, Mask m) {
  const uint32_t* target = i.ops;
  const uint32_t* source = i.ops + (i.imm[0] == 1 ? 4 : 2);
  each_lane(m, [&](int l) {
    uint64_t half[2];
    for (int k = 0; k < 2; ++k) {
      half[k] = i.imm[0] == 2 ? w.r32(source[2 * k])[l] | uint64_t{w.r32(source[2 * k + 1])[l]} << 32 : w.r64(source[k])[l];
    }
    for (int k = 0; k < 2; ++k) {
      if (i.imm[0] != 1) {
        w.r64(target[k])[l] = half[k];
        continue;
      }
      w.r32(target[2 * k])[l] = static_cast<uint32_t>(half[k]);
      w.r32(target[2 * k + 1])[l] = static_cast<uint32_t>(half[k] >> 32);
    }
  });
  return Step::next;
}

Step activemask(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  each_lane(m, [&](int l) { d[l] = m; });
  return Step::next;
}

}  // namespace

uint64_t clock_now(const Run& run) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) + run.skipped.load();
}

void register_move(Registry& r) {
  r.add("mov.32", mov<uint32_t>);
  r.add("mov.64", mov<uint64_t>);
  r.add("mov.128", mov_whole);
  r.add("mov.pred", mov_pred);
  r.add("mov.pack.32", pack<uint32_t>);
  r.add("mov.pack.64", pack<uint64_t>);
  r.add("mov.unpack.32", unpack<uint32_t>);
  r.add("mov.unpack.64", unpack<uint64_t>);
  r.add("cvta", cvta);
  r.add("isspacep", isspacep);
  r.add("clock.32", clock<uint32_t>);
  r.add("clock.64", clock<uint64_t>);
  r.add("activemask", activemask);
}

}  // namespace tilewright::vgpu
