#include "async.h"

#include <algorithm>

namespace tilewright::vgpu {

void AsyncQueue::add(uint32_t lanes, Land land) {
  // Lanes whose open groups have different numbers get an entry each; they share the work by lane.
  while (lanes) {
    const uint32_t group = committed_[__builtin_ctz(lanes)];
    uint32_t same = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      if (committed_[l] == group) same |= 1u << l;
    }
    entries_.push_back({same, group, land});
    lanes &= ~same;
  }
}

void AsyncQueue::commit(uint32_t lanes) {
  for (; lanes; lanes &= lanes - 1) ++committed_[__builtin_ctz(lanes)];
}

void AsyncQueue::wait(uint32_t lanes, uint32_t keep) {
  if (entries_.empty()) return;
  uint32_t limit[32];
  for (int l = 0; l < 32; ++l) limit[l] = committed_[l] > keep ? committed_[l] - keep : 0;
  land_older(lanes, limit);
}

void AsyncQueue::wait_all(uint32_t lanes) {
  if (entries_.empty()) return;
  uint32_t limit[32];
  std::fill(limit, limit + 32, UINT32_MAX);
  land_older(lanes, limit);
}

uint32_t AsyncQueue::lanes_in_flight() const {
  uint32_t lanes = 0;
  for (const Entry& e : entries_) lanes |= e.lanes;
  return lanes;
}

void AsyncQueue::clear() {
  entries_.clear();
  std::fill(committed_, committed_ + 32, 0);
}

// Lands the entries of groups below `limit`, in issue order.
void AsyncQueue::land_older(uint32_t lanes, const uint32_t* limit) {
  size_t kept = 0;
  for (size_t k = 0; k < entries_.size(); ++k) {
    Entry& e = entries_[k];
    uint32_t now = 0;
    for (uint32_t m = e.lanes & lanes; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      if (e.group < limit[l]) now |= 1u << l;
    }
    if (now && e.land) e.land(now);
    e.lanes &= ~now;
    if (e.lanes) {
      if (kept != k) entries_[kept] = std::move(e);
      ++kept;
    }
  }
  entries_.resize(kept);
}

}  // namespace tilewright::vgpu
