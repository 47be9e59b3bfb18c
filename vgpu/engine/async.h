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
  // The same, in two steps: `read` takes the source, and `land` then writes the target from what was taken.
  void add(uint32_t lanes, Land read, Land land);
  void commit(uint32_t lanes);
  // Lands every committed group of `lanes` but their newest `keep`.
  void wait(uint32_t lanes, uint32_t keep);
  // Takes the sources of every committed group of `lanes` but their newest `keep`; their targets are written later.
  void wait_read(uint32_t lanes, uint32_t keep);
  // Lands whatever was read: it completes without anybody waiting for it.
  void land_read(size_t keep = 0);
  // Lands everything of `lanes`, also what is not committed.
  void wait_all(uint32_t lanes);
  uint32_t committed(int lane) const { return committed_[lane]; }
  bool empty() const { return entries_.empty(); }
  uint32_t lanes_in_flight() const;  // whose sources may not be read yet
  void clear();

 private:
  struct Entry {
    uint32_t lanes;
    uint32_t group;
    Land read, land;
    uint32_t unread;  // lanes whose sources are still to be read
  };
  void land_older(uint32_t lanes, const uint32_t* limit);
  void limits(uint32_t keep, uint32_t* limit) const;
  std::vector<Entry> entries_;
  uint32_t committed_[32] = {};
};

}  // namespace tilewright::vgpu
