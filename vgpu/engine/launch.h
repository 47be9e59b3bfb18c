// A run: one grid or several that execute at once, each on a device; what they share, and what is each one's own.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "machine.h"

namespace tilewright::vgpu {

struct Finding {
  Kind kind;
  std::string message;
  uint32_t block[3];
  int32_t warp = -1;
  int32_t lane = -1;
  uint32_t line = 0;
  uint64_t count = 1;
  Site other;
  uint32_t launch = 0;  // index of its grid
};

struct Program;
struct Tally;
class GlobalShadow;
struct Launch;

// What the grids of a run share: one address space, one schedule, one list of findings.
struct Run {
  Mode mode = Mode::eager;
  uint64_t seed = 0;
  uint64_t budget = 0;   // warp instructions a block may run
  uint32_t threads = 1;  // of the host
  uint32_t watch = 0;    // optional checks (observe.h)
  bool checked = true;   // the standard checks; without them blocks have no shadow
  std::deque<Launch> launches;

  std::atomic<bool> stop{false};
  std::atomic<uint64_t> skipped{0};   // nanoseconds that clocks are ahead of the host's
  std::atomic<bool> timed{false};     // a loop that waits for memory also looks at a clock
  std::mutex mutex;  // findings, printed text
  std::vector<Finding> findings;
  std::map<std::tuple<int, const Program*, uint32_t>, size_t> seen;
  std::string output;  // printf text
  std::atomic<uint64_t> instructions{0};
  std::shared_ptr<GlobalShadow> shadow;

  // The grid that a cluster belongs to: clusters are numbered through all grids.
  const Launch& launch_of(uint32_t unit) const;
};

// One grid.
struct Launch {
  Run* run = nullptr;
  uint32_t index = 0;   // in the run
  uint32_t device = 0;
  uint32_t first_unit = 0;  // number of its first cluster in the run
  const Program* program = nullptr;
  uint32_t entry = 0;  // first pc
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;   // static + dynamic
  uint32_t dynamic_bytes = 0;
  uint32_t local_bytes = 0;    // per thread
  uint32_t processors = 0;     // multiprocessors of the device
  bool tracked = false;        // dynamic tracking of uninitialised registers
  std::vector<uint8_t> params;
  std::vector<uint64_t> constants;  // resolved values of the constant pool
  std::vector<Range> ranges;        // sorted by lo, disjoint
  std::vector<std::vector<uint8_t>> storage;  // module variables, grid workspace
  uint64_t workspace = 0;                     // address of the memory behind cooperative groups' grid barrier
  std::atomic<uint64_t> next_unit{0};
  std::shared_ptr<std::vector<Tally>> tallies;  // by pc

  // Asynchronous work lands after its issue: late, or (random) at some time.
  bool lazy() const { return run->mode == Mode::lazy || run->mode == Mode::lazy_reverse || run->mode == Mode::random; }
  uint32_t units() const {
    return grid[0] * grid[1] * grid[2] / (cluster[0] * cluster[1] * cluster[2]);
  }
  uint32_t block_warps() const { return (block[0] * block[1] * block[2] + 31) / 32; }
};

inline const Launch& Run::launch_of(uint32_t unit) const {
  size_t k = launches.size() - 1;
  while (launches[k].first_unit > unit) --k;
  return launches[k];
}

inline Launch& Warp::launch() const { return *block->launch; }

// What clocks and the global timer show, in nanoseconds (move.cpp).
uint64_t clock_now(const Run& run);

// Sorts by address and joins ranges that overlap: views of one allocation, whose union is legal.
void sort_ranges(std::vector<Range>& ranges);

// "byte 4 of argument 2", "shared 0x10".
std::string place_text(const Block& b, const uint8_t* at);

}  // namespace tilewright::vgpu
