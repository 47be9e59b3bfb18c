#include "async.h"

#include <algorithm>

namespace tilewright::vgpu {
namespace {

// Writes that nobody waits for complete some time: the memory that holds them is bounded.
constexpr size_t kMostRead = 64;

}  // namespace

void AsyncQueue::add(uint32_t lanes, Land land) { add(lanes, {}, std::move(land)); }

void AsyncQueue::add(uint32_t lanes, Land read, Land land) {
  // Lanes whose open groups have different numbers get an entry each; they share the work by lane.
  while (lanes) {
    const uint32_t group = committed_[__builtin_ctz(lanes)];
    uint32_t same = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      if (committed_[l] == group) same |= 1u << l;
    }
    entries_.push_back({same, group, read, land, same});
    lanes &= ~same;
  }
}

void AsyncQueue::commit(uint32_t lanes) {
  for (; lanes; lanes &= lanes - 1) ++committed_[__builtin_ctz(lanes)];
}

void AsyncQueue::wait(uint32_t lanes, uint32_t keep) {
  if (entries_.empty()) return;
  uint32_t limit[32];
  limits(keep, limit);
  land_older(lanes, limit);
}

void AsyncQueue::limits(uint32_t keep, uint32_t* limit) const {
  for (int l = 0; l < 32; ++l) limit[l] = committed_[l] > keep ? committed_[l] - keep : 0;
}

void AsyncQueue::wait_read(uint32_t lanes, uint32_t keep) {
  if (entries_.empty()) return;
  uint32_t limit[32];
  limits(keep, limit);
  size_t read = 0;
  for (Entry& e : entries_) {
    for (uint32_t m = e.unread & lanes; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      if (e.group >= limit[l]) continue;
      if (e.read) e.read(1u << l);
      e.unread &= ~(1u << l);
    }
    read += e.unread == 0;
  }
  if (read > kMostRead) land_read(kMostRead);
}

void AsyncQueue::land_read(size_t keep) {
  size_t read = 0, kept = 0;
  for (const Entry& e : entries_) read += e.unread == 0;
  for (Entry& e : entries_) {
    if (e.unread == 0 && read > keep) {
      --read;
      if (e.land) e.land(e.lanes);
      continue;
    }
    if (&entries_[kept] != &e) entries_[kept] = std::move(e);
    ++kept;
  }
  entries_.resize(kept);
}

void AsyncQueue::wait_all(uint32_t lanes) {
  if (entries_.empty()) return;
  uint32_t limit[32];
  std::fill(limit, limit + 32, UINT32_MAX);
  land_older(lanes, limit);
}

uint32_t AsyncQueue::lanes_in_flight() const {
  uint32_t lanes = 0;
  for (const Entry& e : entries_) lanes |= e.unread;
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
    if ((now & e.unread) && e.read) e.read(now & e.unread);
    if (now && e.land) e.land(now);
    e.lanes &= ~now;
    e.unread &= ~now;
    if (e.lanes) {
      if (kept != k) entries_[kept] = std::move(e);
      ++kept;
    }
  }
  entries_.resize(kept);
}

}  // namespace tilewright::vgpu
