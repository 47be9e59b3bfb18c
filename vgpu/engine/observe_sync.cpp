// Synchronisation, as the race detector sees it.
#include "observe.h"

#include <algorithm>

namespace tilewright::vgpu {
namespace {

constexpr size_t kMaxCommits = 4096;

RaceUnit* race_of(const Block& b) { return b.observer ? b.observer->race.get() : nullptr; }

GlobalShadow& shadow_of(const Warp& w) { return *w.launch().run->shadow; }

bool is_shared(const Warp& w, uint64_t at) {
  for (const Block* b : w.block->cluster) {
    const auto start = reinterpret_cast<uint64_t>(b->smem.data());
    if (at >= start && at < start + b->smem.size()) return true;
  }
  return false;
}

// Calls body(flags, version) with the table that holds the location, locked.
template <class Body>
void with_flags(RaceUnit& unit, const Warp& w, uint64_t at, Body body) {
  if (is_shared(w, at)) {
    body(unit.flags, unit.flag_version);
    return;
  }
  GlobalShadow& shadow = shadow_of(w);
  const std::lock_guard<std::mutex> lock(shadow.mutex);
  body(shadow.flags, shadow.flag_version);
  if (!shadow.flags.empty()) shadow.any_flag.store(true, std::memory_order_release);
}

// Releases that reach the same threads are kept as one.
bool alike(const RaceUnit& unit, const Release& a, const Release& b) {
  if (a.scope != b.scope) return false;
  const Run& run = *unit.launch->run;
  if (a.scope >= Scope::device) return run.launch_of(a.unit).device == run.launch_of(b.unit).device;
  return a.unit == b.unit && (a.scope == Scope::cluster || a.rank == b.rank);
}

void add_release(const RaceUnit& unit, Flag& f, const Release& release) {
  for (Release& known : f.releases)
    if (alike(unit, known, release)) {
      known.stamp.join(release.stamp);
      known.mixed = known.mixed || known.unit != release.unit || known.rank != release.rank;
      return;
    }
  f.releases.push_back(release);
}

void publish_at(RaceUnit& unit, Warp& w, uint64_t at, const std::vector<Release>& releases, bool rmw) {
  with_flags(unit, w, at, [&](auto& flags, uint64_t& version) {
    if (releases.empty()) {
      if (!rmw) flags.erase(at);
      return;
    }
    Flag& f = flags[at];
    f.version = ++version;
    if (!rmw) f.releases.clear();
    for (const Release& r : releases) add_release(unit, f, r);
  });
}

// The release side of an arrival: all that the warp knows, or for a relaxed one what it knew at its last fence.
void release_arrival(RaceUnit& unit, const Warp& w, const Instr& i, bool same_block, Stamp& to) {
  if (order_of(i) != Order::relaxed) return unit.release_into(w, to);
  if (const ReleaseFence* f = unit.of(w).released_from(same_block ? Scope::block : Scope::cluster)) to.join(f->stamp);
}

// The releases of a store of scope `scope`: through it everything (`own`) or what fences of its scope or wider saw, and
// through narrower fences what they saw later.
void releases_of(RaceUnit& unit, const Warp& w, const Instr& i, bool own, std::vector<Release>& out) {
  const WarpClocks& c = unit.of(w);
  const Scope scope = scope_of(i);
  const auto add = [&](const Stamp& stamp, Scope at, uint32_t line) {
    out.push_back({stamp, unit.id, w.block->rank, false, at, line});
  };
  if (own) return add(c.stamp, scope, i.line);
  if (const ReleaseFence* f = c.released_from(scope)) add(f->stamp, scope, i.line);
  for (size_t k = 0; k < static_cast<size_t>(scope); ++k)
    if (c.released[k].instr) add(c.released[k].stamp, static_cast<Scope>(k), c.released[k].instr->line);
}

// Remembers for a report why clusters that are known to `stamp` are not ordered before this warp.
void note(WarpClocks& c, const Stamp& stamp, const Narrow& why) {
  c.narrow[stamp.unit] = why;
  for (const auto& other : stamp.foreign) c.narrow[other.first] = why;
}

// What a strong read of a location with these releases learns, by the least scope that it takes to learn it.
void see(RaceUnit& unit, WarpClocks& c, const Warp& w, const Instr& i, const Flag& flag, std::array<Stamp, 4>& seen) {
  for (const Release& r : flag.releases) {
    Scope needed = needed_scope(unit, w.block->rank, r.unit, r.rank);
    if (r.mixed) needed = std::max(needed, Scope::device);
    if (needed > r.scope) note(c, r.stamp, {needed, r.scope, true, r.line});
    else if (needed > scope_of(i)) note(c, r.stamp, {needed, scope_of(i), false, i.line});
    else seen[static_cast<size_t>(needed)].join(r.stamp);
  }
}

}  // namespace

const ReleaseFence* WarpClocks::released_from(Scope least) const {
  for (size_t k = static_cast<size_t>(least); k < released.size(); ++k)
    if (released[k].instr) return &released[k];
  return nullptr;
}

// The release side of a strong write, before it becomes visible.
void publish(Warp& w, const Instr& i, Mask m, const Pointers& p, bool rmw) {
  const Order order = order_of(i);
  if (order == Order::weak && !rmw) return;
  RaceUnit& unit = *w.block->observer->race;
  const bool own = releases(i), any = own || unit.of(w).released_from(Scope::block);
  if (!any && (rmw || (unit.flags.empty() && !shadow_of(w).any_flag.load(std::memory_order_acquire)))) return;
  std::vector<Release> all;
  if (any) releases_of(unit, w, i, own, all);
  for (; m; m &= m - 1) publish_at(unit, w, reinterpret_cast<uint64_t>(p.at[__builtin_ctz(m)]), all, rmw);
  if (own) unit.tick(w);
}

// The acquire side of a strong read, behind it.
void observed_load(Warp& w, const Instr& i, Mask m, const Pointers& p) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit || order_of(i) == Order::weak) return;
  if (unit->flags.empty() && !shadow_of(w).any_flag.load(std::memory_order_acquire)) return;
  WarpClocks& c = unit->of(w);
  std::array<Stamp, 4> seen;
  for (; m; m &= m - 1) {
    const auto at = reinterpret_cast<uint64_t>(p.at[__builtin_ctz(m)]);
    with_flags(*unit, w, at, [&](auto& flags, uint64_t&) {
      const auto it = flags.find(at);
      if (it == flags.end() || (c.last_read == &i && c.last_at == at && c.last_version == it->second.version)) return;
      see(*unit, c, w, i, it->second, seen);
      c.last_read = &i;
      c.last_at = at;
      c.last_version = it->second.version;
    });
  }
  for (size_t k = 0; k < seen.size(); ++k) {
    if (seen[k].empty) continue;
    if (acquires(i)) unit->acquire(w, seen[k]);
    else c.pending[k].join(seen[k]);
  }
}

void observe_fence(Warp& w, const Instr& i) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  WarpClocks& c = unit->of(w);
  for (size_t k = 0; k < c.pending.size() && order_of(i) != Order::release; ++k) {
    if (c.pending[k].empty) continue;
    if (static_cast<Scope>(k) > scope_of(i)) {
      note(c, c.pending[k], {static_cast<Scope>(k), scope_of(i), false, i.line});
      continue;
    }
    unit->acquire(w, c.pending[k]);
    c.pending[k] = Stamp{};
  }
  if (order_of(i) == Order::acquire) return;
  const auto scope = static_cast<size_t>(scope_of(i));
  for (size_t k = 0; k < scope; ++k) c.released[k] = ReleaseFence{};
  c.released[scope] = {c.stamp, &i};
  unit->tick(w);
}

void observe_proxy_fence(Warp& w) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  Stamp& s = unit->of(w).stamp;
  for (size_t k = 0; k < s.time.size(); ++k) s.fenced[k] = std::max(s.fenced[k], s.time[k]);
  unit->tick(w);
}

void observe_commit(Warp& w, Actor kind) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  WarpClocks& c = unit->of(w);
  const auto k = static_cast<uint32_t>(kind);
  std::vector<uint32_t>& commits = c.commits[k];
  commits.push_back(c.issued[k]);
  if (commits.size() > kMaxCommits) commits.erase(commits.begin(), commits.begin() + kMaxCommits / 2);
}

void observe_wait(Warp& w, Actor kind, uint32_t keep) { observe_wait_of(w, w, kind, keep); }

void observe_wait_of(Warp& w, const Warp& issuer, Actor kind, uint32_t keep) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  const std::vector<uint32_t>& commits = unit->of(issuer).commits[static_cast<uint32_t>(kind)];
  if (commits.size() <= keep) return;
  uint32_t& time = unit->of(w).stamp.time[unit->actor(issuer, kind)];
  time = std::max(time, commits[commits.size() - 1 - keep]);
}

void observe_wait_all(Warp& w, Actor kind) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  WarpClocks& c = unit->of(w);
  c.stamp.time[unit->actor(w, kind)] = c.issued[static_cast<uint32_t>(kind)];
}

void observe_barrier_arrive(Warp& w, uint32_t id) {
  if (RaceUnit* unit = race_of(*w.block)) unit->release_into(w, unit->barriers[w.block->rank][id]);
}

void observe_barrier_done(Block& b, uint32_t id, const NamedBarrier& bar) {
  RaceUnit* unit = race_of(b);
  if (!unit) return;
  Stamp& all = unit->barriers[b.rank][id];
  for (const Arrival& a : bar.arrivals)
    if (a.waits) unit->acquire(b.warps[a.warp], all);
  all.clear();
}

void observe_cluster_arrive(Warp& w, const Instr& i) {
  RaceUnit* unit = race_of(*w.block);
  if (unit) release_arrival(*unit, w, i, w.block->cluster.size() == 1, unit->cluster_arriving);
}

void observe_cluster_done(Block& b) {
  RaceUnit* unit = race_of(b);
  if (!unit) return;
  unit->cluster_done = unit->cluster_arriving;
  unit->cluster_arriving.clear();
}

void observe_cluster_wait(Warp& w) {
  if (RaceUnit* unit = race_of(*w.block)) unit->acquire(w, unit->cluster_done);
}

void observe_exit(Warp& w, const Instr& i) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit || w.block->cluster.size() == 1) return;
  Stamp known = unit->of(w).stamp;
  for (const Warp& other : w.block->warps) known.join(unit->of(other).stamp);
  check_exit(*unit, w, i, known);
}

void observe_mbarrier_init(Warp& w, const Instr& i, int lane, uint32_t address) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  Probe p = make_probe(*unit, w, i, Actor::thread, true);
  p.self.lane = static_cast<uint32_t>(lane) & 31u;
  probe_shared(p, *w.block, address & kSharedOffset, 8);
  MBarrierClocks& mb = unit->mbarrier(*w.block, address);
  mb.initialised = {p.self.actor, p.self.clock};
  mb.warp = static_cast<int32_t>(w.index);
  mb.lane = lane;
}

// Operations on an mbarrier do not race with each other, but with its initialisation.
void observe_mbarrier_use(Warp& w, const Instr& i, int lane, uint32_t address) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  Probe p = make_probe(*unit, w, i, Actor::thread, false);
  p.self.lane = static_cast<uint32_t>(lane) & 31u;
  p.self.flags = (kStrong | kAtomic | static_cast<uint32_t>(Scope::system) << kScopeShift) & 15u;
  probe_shared(p, *shared_owner(*w.block, address), address & kSharedOffset, 8);
}

void observe_mbarrier_arrive(Warp& w, const Instr& i, uint32_t address) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  const Block* owner = shared_owner(*w.block, address);
  release_arrival(*unit, w, i, owner == w.block, unit->mbarrier(*owner, address).arriving);
}

void observe_copies_arrive(Warp& w, uint32_t address) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  Stamp& to = unit->mbarrier(*shared_owner(*w.block, address), address).arriving;
  unit->release_into(w, to);
  uint32_t& copies = to.time[unit->actor(w, Actor::cp_async)];
  copies = std::max(copies, unit->of(w).issued[static_cast<uint32_t>(Actor::cp_async)]);
}

void observe_mbarrier_phase(Block& owner, uint32_t address) {
  RaceUnit* unit = race_of(owner);
  if (!unit) return;
  MBarrierClocks& mb = unit->mbarrier(owner, address);
  mb.done.join(mb.arriving);
  mb.arriving.clear();
  ++mb.phase;
  Stamp phase;
  phase.unit = unit->id;
  phase.empty = false;
  phase.time.assign(unit->capacity, 0);
  phase.time[mb.actor] = mb.phase;
  mb.done.join(phase);
}

void observe_mbarrier_wait(Warp& w, const Instr& i, uint32_t address) {
  RaceUnit* unit = race_of(*w.block);
  if (!unit) return;
  const Stamp& done = unit->mbarrier(*shared_owner(*w.block, address), address).done;
  const Scope needed = w.block->cluster.size() == 1 ? Scope::block : Scope::cluster;
  if (order_of(i) == Order::relaxed) unit->of(w).pending[static_cast<size_t>(needed)].join(done);
  else unit->acquire(w, done);
}

}  // namespace tilewright::vgpu
