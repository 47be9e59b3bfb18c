// Accesses, as the optional checks see them.
#include "observe.h"

#include <cstring>

#include "counters.h"

namespace tilewright::vgpu {
namespace {

uint32_t flags_of(const Instr& i, bool atomic) {
  const bool strong = atomic || order_of(i) != Order::weak;
  if (!strong) return 0;
  return kStrong | (atomic ? kAtomic : 0u) | static_cast<uint32_t>(scope_of(i)) << kScopeShift;
}

void probe_lanes(Probe& p, Mask m, const Pointers& at, uint32_t bytes) {
  for (; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    p.self.lane = static_cast<uint32_t>(l);
    probe_memory(p, at.at[l], bytes);
  }
}

void count_lanes(Observer& o, Warp& w, const Instr& i, Mask m, const Pointers& p, uint32_t bytes) {
  if (o.tallies.empty()) return;
  count_access(o, w, tally_of(o, w, i), m, p.at, bytes);
}

bool same_value(const Warp& w, const StoredValue& v, uint32_t bytes, int a, int b) {
  const uint32_t step = v.wide ? 8 : 4;
  for (uint32_t k = 0; k < bytes / v.element; ++k) {
    const auto* source = reinterpret_cast<const uint8_t*>(w.file + v.ops[k]);
    if (std::memcmp(source + step * static_cast<uint32_t>(a), source + step * static_cast<uint32_t>(b), v.element) != 0)
      return false;
  }
  return true;
}

// Two lanes of one store that write different values to one place.
void check_collision(Warp& w, const Instr& i, Mask m, const Pointers& p, uint32_t bytes, const StoredValue& value) {
  const uint8_t* last = nullptr;
  bool rising = true;
  for (Mask left = m; left; left &= left - 1) {
    const uint8_t* at = p.at[__builtin_ctz(left)];
    rising = rising && at > last;
    last = at;
  }
  if (rising) return;
  int8_t first[64];
  std::memset(first, -1, sizeof first);
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    auto slot = static_cast<uint32_t>(reinterpret_cast<uint64_t>(p.at[l]) / bytes * 0x9e3779b1u >> 4) & 63u;
    while (first[slot] >= 0 && p.at[first[slot]] != p.at[l]) slot = (slot + 1) & 63u;
    if (first[slot] < 0) {
      first[slot] = static_cast<int8_t>(l);
      continue;
    }
    if (same_value(w, value, bytes, first[slot], l)) continue;
    Site other;
    other.block[0] = w.block->x;
    other.block[1] = w.block->y;
    other.block[2] = w.block->z;
    other.warp = static_cast<int32_t>(w.index);
    other.lane = first[slot];
    other.line = i.line;
    other.launch = w.launch().index;
    report_pair(w, i, Kind::race, 1u << l,
                "race inside one store: lanes " + std::to_string(first[slot]) + " and " + std::to_string(l) +
                    " write different values to one address",
                other);
    return;
  }
}

}  // namespace

void observe_load(Warp& w, const Instr& i, Mask m, const Pointers& p, uint32_t bytes) {
  Observer& o = *w.block->observer;
  count_lanes(o, w, i, m, p, bytes);
  if (!o.race) return;
  Probe probe = make_probe(*o.race, w, i, Actor::thread, false);
  probe.self.flags = flags_of(i, false) & 15u;
  probe_lanes(probe, m, p, bytes);
}

void observe_store(Warp& w, const Instr& i, Mask m, const Pointers& p, uint32_t bytes, const StoredValue& value) {
  Observer& o = *w.block->observer;
  count_lanes(o, w, i, m, p, bytes);
  if (!o.race) return;
  check_collision(w, i, m, p, bytes, value);
  Probe probe = make_probe(*o.race, w, i, Actor::thread, true);
  probe.self.flags = flags_of(i, false) & 15u;
  probe.value_ops = value.ops;
  probe.element = value.element;
  probe.wide = value.wide;
  probe_lanes(probe, m, p, bytes);
  publish(w, i, m, p, false);
}

void observe_atomic(Warp& w, const Instr& i, Mask m, const Pointers& p, uint32_t bytes) {
  Observer& o = *w.block->observer;
  count_lanes(o, w, i, m, p, bytes);
  if (!o.race) return;
  Probe probe = make_probe(*o.race, w, i, Actor::thread, true);
  probe.self.flags = flags_of(i, true) & 15u;
  probe_lanes(probe, m, p, bytes);
  publish(w, i, m, p, true);
}

void observe_rows(Warp& w, const Instr& i, Mask m, const Pointers& rows, bool write) {
  Observer& o = *w.block->observer;
  count_lanes(o, w, i, m, rows, 16);
  if (!o.race) return;
  Probe probe = make_probe(*o.race, w, i, Actor::thread, write);
  probe_lanes(probe, m, rows, 16);
}

void observe_cp_async(Warp& w, const Instr& i, Mask m, const uint32_t* target, const uint8_t* const* source,
                      const uint8_t* read, uint32_t size) {
  Observer& o = *w.block->observer;
  if (!o.tallies.empty()) count_copy(o, w, i, m, target, source, read, size);
  if (!o.race) return;
  ++o.race->of(w).issued[static_cast<uint32_t>(Actor::cp_async)];
  Probe from = make_probe(*o.race, w, i, Actor::cp_async, false);
  Probe to = make_probe(*o.race, w, i, Actor::cp_async, true);
  for (; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    from.self.lane = to.self.lane = static_cast<uint32_t>(l);
    if (read[l]) probe_global(from, reinterpret_cast<uint64_t>(source[l]), read[l]);
    if (Block* owner = shared_owner(*w.block, target[l])) probe_shared(to, *owner, target[l] & kSharedOffset, size);
  }
}

Probe begin_wgmma(Warp& w, const Instr& i) {
  RaceUnit& unit = *w.block->observer->race;
  ++unit.of(w).issued[static_cast<uint32_t>(Actor::wgmma)];
  return make_probe(unit, w, i, Actor::wgmma, false);
}

void observe_chunk(Probe& p, uint32_t address) {
  p.async_proxy = true;
  Block& b = *p.w.block;
  if (address + 16ull <= b.smem.size()) probe_chunk(p, b, address);
}

namespace {

// An access of a transfer: known to those who see the phase of its mbarrier complete.
void as_transfer(Probe& p, int lane, uint32_t barrier) {
  const MBarrierClocks& mb = p.unit.mbarrier(*shared_owner(*p.w.block, barrier), barrier);
  p.self.actor = mb.actor;
  p.self.clock = mb.phase + 1;
  p.self.lane = static_cast<uint32_t>(lane);
  p.async_proxy = true;
}

}  // namespace

void observe_transfer(Warp& w, const Instr& i, int lane, uint32_t target, uint32_t bytes, uint32_t barrier,
                      bool reduces) {
  Observer& o = *w.block->observer;
  if (!o.tallies.empty()) tally_of(o, w, i).shared_bytes += bytes;
  if (!o.race) return;
  observe_mbarrier_use(w, i, lane, barrier);
  Probe p = make_probe(*o.race, w, i, Actor::thread, true);
  as_transfer(p, lane, barrier);
  if (reduces) p.self.flags = kStrong | kAtomic | static_cast<uint32_t>(Scope::cluster) << kScopeShift;
  if (Block* owner = shared_owner(*w.block, target)) probe_shared(p, *owner, target & kSharedOffset, bytes);
  o.race->release_into(w, o.race->mbarrier(*shared_owner(*w.block, barrier), barrier).arriving);
}

void observe_transfer_source(Warp& w, const Instr& i, int lane, const std::vector<Piece>& source, uint32_t barrier) {
  Observer& o = *w.block->observer;
  if (!o.tallies.empty())
    for (const Piece& piece : source) count_bulk(o, w, i, piece.at, piece.bytes);
  if (!o.race) return;
  Probe p = make_probe(*o.race, w, i, Actor::thread, false);
  as_transfer(p, lane, barrier);
  for (const Piece& piece : source) probe_memory(p, piece.at, static_cast<uint32_t>(piece.bytes));
}

void observe_bulk(Warp& w) {
  Observer& o = *w.block->observer;
  if (!o.race) return;
  WarpClocks& c = o.race->of(w);
  ++c.issued[static_cast<uint32_t>(Actor::bulk_read)];
  ++c.issued[static_cast<uint32_t>(Actor::bulk_write)];
}

void observe_bulk_source(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes) {
  Observer& o = *w.block->observer;
  if (!o.tallies.empty()) tally_of(o, w, i).shared_bytes += bytes;
  if (!o.race) return;
  Probe p = make_probe(*o.race, w, i, Actor::bulk_read, false);
  p.self.lane = static_cast<uint32_t>(lane);
  p.async_proxy = true;
  if (Block* owner = shared_owner(*w.block, address)) probe_shared(p, *owner, address & kSharedOffset, bytes);
}

void observe_bulk_target(Warp& w, const Instr& i, int lane, const std::vector<Piece>& target, bool reduces) {
  Observer& o = *w.block->observer;
  if (!o.tallies.empty())
    for (const Piece& piece : target) count_bulk(o, w, i, piece.at, piece.bytes);
  if (!o.race) return;
  Probe p = make_probe(*o.race, w, i, Actor::bulk_write, true);
  p.self.lane = static_cast<uint32_t>(lane);
  constexpr auto kDevice = static_cast<uint32_t>(Scope::device) << kScopeShift;
  p.self.flags = reduces ? kStrong | kAtomic | kDevice : 0u;
  for (const Piece& piece : target) probe_memory(p, piece.at, static_cast<uint32_t>(piece.bytes));
}

}  // namespace tilewright::vgpu
