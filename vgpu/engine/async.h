// Groups of asynchronous operations of a warp's threads: issue, commit, wait.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace tilewright::vgpu {

// Groups are per thread. An entry belongs to the open group of each of its lanes when it is added. `land` gets the
// lanes that land now and must do the memory effect of exactly those lanes; an eager engine passes an empty function
// after doing the work, so that waits and the exit check see the same groups in every mode.
class AsyncQueue {
 public:
  using Land = std::function<void(uint32_t lanes)>;

  void add(uint32_t lanes, Land land);
  void commit(uint32_t lanes);
  // Lands every committed group of `lanes` but their newest `keep`.
  void wait(uint32_t lanes, uint32_t keep);
  // Lands everything of `lanes`, also what is not committed.
  void wait_all(uint32_t lanes);
  uint32_t committed(int lane) const { return committed_[lane]; }
  bool empty() const { return entries_.empty(); }
  uint32_t lanes_in_flight() const;
  void clear();

 private:
  struct Entry {
    uint32_t lanes;
    uint32_t group;
    Land land;
  };
  void land_older(uint32_t lanes, const uint32_t* limit);
  std::vector<Entry> entries_;
  uint32_t committed_[32] = {};
};

}  // namespace tilewright::vgpu
