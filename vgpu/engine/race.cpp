#include "race.h"

#include <algorithm>

namespace tilewright::vgpu {
namespace {

void join_times(Times& into, const Times& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  uint32_t* a = into.data();
  const uint32_t* b = from.data();
  for (size_t k = 0; k < from.size(); ++k) a[k] = std::max(a[k], b[k]);
}

constexpr uint32_t kSpareActors = 32;  // room for mbarriers, per block

}  // namespace

const char* scope_name(Scope s) {
  static const char* const kNames[] = {".cta", ".cluster", ".gpu", ".sys"};
  return kNames[static_cast<size_t>(s)];
}

void Stamp::join(const Stamp& other) {
  if (other.empty) return;
  if (empty && time.empty()) {
    *this = other;
    return;
  }
  if (empty) unit = other.unit;
  empty = false;
  if (unit == other.unit) {
    join_times(time, other.time);
    join_times(fenced, other.fenced);
  } else {
    join_times(foreign[other.unit], other.time);
  }
  for (const auto& [from, times] : other.foreign) join_times(from == unit ? time : foreign[from], times);
}

void Stamp::clear() {
  empty = true;
  std::fill(time.begin(), time.end(), 0);
  std::fill(fenced.begin(), fenced.end(), 0);
  foreign.clear();
}

void RaceUnit::reset(Launch& l, uint32_t number, const std::vector<std::unique_ptr<Block>>& blocks) {
  launch = &l;
  id = number;
  block_warps = static_cast<uint32_t>(blocks.front()->warps.size());
  actors = static_cast<uint32_t>(blocks.size()) * block_warps * kActors;
  capacity = actors + kSpareActors * static_cast<uint32_t>(blocks.size());
  warps.assign(blocks.size() * block_warps, WarpClocks{});
  for (size_t k = 0; k < warps.size(); ++k) {
    Stamp& s = warps[k].stamp;
    s.unit = id;
    s.empty = false;
    s.time.assign(capacity, 0);
    s.fenced.assign(capacity, 0);
    s.time[k * kActors] = 1;
  }
  shared.resize(blocks.size());
  for (CellArray& a : shared) {
    a.cells.assign((l.shared_bytes + kCellBytes - 1) / kCellBytes, Cell{});
    a.extras.clear();
  }
  barriers.assign(blocks.size(), {});
  cluster_arriving = cluster_done = Stamp{};
  mbarriers.clear();
  flags.clear();
  reported.clear();
}

MBarrierClocks& RaceUnit::mbarrier(const Block& owner, uint32_t address) {
  const uint64_t key = uint64_t{owner.rank} << 32 | (address & kSharedOffset);
  const auto [it, fresh] = mbarriers.try_emplace(key);
  if (!fresh) return it->second;
  it->second.actor = static_cast<uint16_t>(actors++);
  if (actors > capacity) {
    capacity = 2 * actors;
    for (WarpClocks& w : warps) {
      w.stamp.time.resize(capacity, 0);
      w.stamp.fenced.resize(capacity, 0);
    }
  }
  return it->second;
}

void RaceUnit::acquire(const Warp& w, const Stamp& from) {
  WarpClocks& c = of(w);
  c.stamp.join(from);
  c.converged_at = tick(w);  // a path of the warp may have learnt of another one's accesses
}

// The memory of all grids; views of one allocation are one area.
GlobalShadow::GlobalShadow(const Run& run) {
  std::vector<Range> ranges;
  for (const Launch& l : run.launches) ranges.insert(ranges.end(), l.ranges.begin(), l.ranges.end());
  sort_ranges(ranges);
  for (const Range& r : ranges) {
    areas_.emplace_back();
    Area& a = areas_.back();
    a.lo = r.lo;
    a.hi = r.hi;
    a.first_page = r.lo / GlobalPage::kBytes;
    a.pages = std::vector<std::atomic<GlobalPage*>>((r.hi - 1) / GlobalPage::kBytes - a.first_page + 1);
    for (auto& page : a.pages) page.store(nullptr, std::memory_order_relaxed);
  }
}

GlobalShadow::~GlobalShadow() {
  for (Area& a : areas_)
    for (auto& page : a.pages) delete page.load();
}

GlobalPage* GlobalShadow::page(uint64_t address, uint32_t& hint) {
  if (hint >= areas_.size() || address < areas_[hint].lo || address >= areas_[hint].hi) {
    const auto it = std::upper_bound(areas_.begin(), areas_.end(), address,
                                     [](uint64_t a, const Area& area) { return a < area.lo; });
    if (it == areas_.begin() || address >= (it - 1)->hi) return nullptr;
    hint = static_cast<uint32_t>(it - 1 - areas_.begin());
  }
  Area& area = areas_[hint];
  std::atomic<GlobalPage*>& slot = area.pages[address / GlobalPage::kBytes - area.first_page];
  GlobalPage* page = slot.load(std::memory_order_acquire);
  if (page) return page;
  auto fresh = std::make_unique<GlobalPage>();
  fresh->lo = area.lo;
  fresh->hi = area.hi;
  if (slot.compare_exchange_strong(page, fresh.get(), std::memory_order_acq_rel)) return fresh.release();
  return page;
}

}  // namespace tilewright::vgpu
