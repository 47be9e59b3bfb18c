// ld and st of every space, scalar and vector.
#include <cstring>

#include "address.h"
#include "lanes.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

template <class T>
T read(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// A value shorter than its register is sign- or zero-extended to it.
template <class T>
void load_lanes(Warp& w, uint32_t op, int64_t register_bytes, Mask m, const Pointers& p, uint32_t at) {
  if (sizeof(T) == 8 || register_bytes == 8) {
    uint64_t* d = w.r64(op);
    each_lane(m, [&](int l) { d[l] = static_cast<uint64_t>(static_cast<int64_t>(read<T>(p.at[l] + at))); });
    return;
  }
  uint32_t* d = w.r32(op);
  const uint32_t ones = register_bytes == 2 ? 0xffffu : ~0u;
  each_lane(m, [&](int l) { d[l] = static_cast<uint32_t>(static_cast<int64_t>(read<T>(p.at[l] + at))) & ones; });
}

void load_element(Warp& w, uint32_t op, int64_t register_bytes, Mask m, const Pointers& p, uint32_t at, int64_t bytes,
                  bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? load_lanes<int8_t>(w, op, register_bytes, m, p, at)
                       : load_lanes<uint8_t>(w, op, register_bytes, m, p, at);
    case 2:
      return is_signed ? load_lanes<int16_t>(w, op, register_bytes, m, p, at)
                       : load_lanes<uint16_t>(w, op, register_bytes, m, p, at);
    case 4:
      return is_signed ? load_lanes<int32_t>(w, op, register_bytes, m, p, at)
                       : load_lanes<uint32_t>(w, op, register_bytes, m, p, at);
    default: return load_lanes<uint64_t>(w, op, register_bytes, m, p, at);
  }
}

// ops: destinations, base. imm: element bytes, signed, elements, register bytes, offset, base bytes.
template <Space kSpace>
Step load(Warp& w, const Instr& i, Mask m) {
  const auto bytes = static_cast<uint32_t>(i.imm[0]);
  const auto count = static_cast<uint32_t>(i.imm[2]);
  uint64_t address[kLanes];
  Pointers p;
  addresses(w, i.ops[count], i.imm[4], i.imm[5], address);
  if (!locate(w, i, m, kSpace, address, bytes * count, false, p)) return Step::fault;
  const bool watched = w.block->observer && kSpace != Space::local && kSpace != Space::param;
  if (watched) observe_load(w, i, m, p, bytes * count);
  for (uint32_t k = 0; k < count; ++k) load_element(w, i.ops[k], i.imm[3], m, p, bytes * k, bytes, i.imm[1] != 0);
  if (watched) observed_load(w, i, m, p);
  w.looked_at = p.at[__builtin_ctz(m)];
  return Step::next;
}

void store_element(Warp& w, uint32_t op, int64_t register_bytes, Mask m, const Pointers& p, uint32_t at, uint32_t bytes) {
  if (register_bytes == 8) {
    const uint64_t* s = w.r64(op);
    each_lane(m, [&](int l) { std::memcpy(p.at[l] + at, &s[l], bytes); });
    return;
  }
  const uint32_t* s = w.r32(op);
  if (bytes == 4) each_lane(m, [&](int l) { std::memcpy(p.at[l] + at, &s[l], 4); });
  else each_lane(m, [&](int l) { std::memcpy(p.at[l] + at, &s[l], bytes); });
}

// ops: base, sources. imm: element bytes, elements, offset, base bytes, register bytes.
template <Space kSpace>
Step store(Warp& w, const Instr& i, Mask m) {
  const auto bytes = static_cast<uint32_t>(i.imm[0]);
  const auto count = static_cast<uint32_t>(i.imm[1]);
  uint64_t address[kLanes];
  Pointers p;
  addresses(w, i.ops[0], i.imm[2], i.imm[3], address);
  if (!locate(w, i, m, kSpace, address, bytes * count, true, p)) return Step::fault;
  if (w.block->observer && kSpace != Space::local)
    observe_store(w, i, m, p, bytes * count, {i.ops + 1, bytes, i.imm[4] == 8});
  for (uint32_t k = 0; k < count; ++k) store_element(w, i.ops[1 + k], i.imm[4], m, p, bytes * k, bytes);
  return Step::next;
}

// Whether the value of a lane is an address of shared memory; a plain one always is, a generic one by its window.
bool names_shared(Warp& w, const Instr& i, int lane, uint64_t address, bool generic) {
  if (!generic || window_of(address) == Window::shared) return true;
  report(w, i, Kind::illegal, 1u << lane, "generic address " + hex(address) + " is not in shared memory");
  return false;
}

// Shared address of this block -> the same place in the block of a rank. imm: whether the address is generic.
template <class T>
Step mapa(Warp& w, const Instr& i, Mask m) {
  T* d = slot<T>(w, i.ops[0]);
  const T* a = slot<T>(w, i.ops[1]);
  const uint32_t* rank = w.r32(i.ops[2]);
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    if (rank[l] >= w.block->cluster.size()) {
      report(w, i, Kind::illegal, 1u << l,
             "rank " + std::to_string(rank[l]) + " is outside the cluster of " + std::to_string(w.block->cluster.size()));
      return Step::fault;
    }
    if (!names_shared(w, i, l, a[l], i.imm[0] != 0)) return Step::fault;
    const T high = static_cast<T>(static_cast<uint64_t>(a[l]) & ~0xffffffffull);
    d[l] = high | static_cast<T>((rank[l] + 1) << 24) | (a[l] & kSharedOffset);
  }
  return Step::next;
}

// imm: 64-bit address, generic.
Step getctarank(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const uint64_t address = i.imm[0] ? w.r64(i.ops[1])[l] : w.r32(i.ops[1])[l];
    if (!names_shared(w, i, l, address, i.imm[1] != 0)) return Step::fault;
    const auto rank = static_cast<uint32_t>(address) >> 24;
    d[l] = rank ? rank - 1 : w.block->rank;
  }
  return Step::next;
}

}  // namespace

void register_memory(Registry& r) {
  r.add("ld.global", load<Space::global>);
  r.add("ld.shared", load<Space::shared>);
  r.add("ld.local", load<Space::local>);
  r.add("ld.param", load<Space::param>);
  r.add("ld.generic", load<Space::generic>);
  r.add("st.global", store<Space::global>);
  r.add("st.shared", store<Space::shared>);
  r.add("st.local", store<Space::local>);
  r.add("st.generic", store<Space::generic>);
  r.add("mapa.32", mapa<uint32_t>);
  r.add("mapa.64", mapa<uint64_t>);
  r.add("getctarank", getctarank);
}

}  // namespace tilewright::vgpu
