// One launch: program, grid, memory ranges, mode, findings, counters.
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
};

struct Program;
struct Tally;
class GlobalShadow;

struct Launch {
  const Program* program = nullptr;
  uint32_t entry = 0;  // first pc
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
  uint32_t threads = 1;
  uint32_t shared_bytes = 0;   // static + dynamic
  uint32_t dynamic_bytes = 0;
  uint32_t local_bytes = 0;    // per thread
  Mode mode = Mode::eager;
  uint64_t seed = 0;
  uint64_t budget = 0;         // warp instructions a block may run
  uint32_t watch = 0;          // optional checks (observe.h)
  bool tracked = false;        // dynamic tracking of uninitialised registers
  std::vector<uint8_t> params;
  std::vector<uint64_t> constants;  // resolved values of the constant pool
  std::vector<Range> ranges;        // sorted by lo, disjoint
  std::vector<std::vector<uint8_t>> storage;  // module variables, grid workspace
  uint64_t workspace = 0;                     // address of the memory behind cooperative groups' grid barrier

  std::atomic<uint64_t> next_block{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // findings, printed text
  std::vector<Finding> findings;
  std::map<std::pair<int, uint32_t>, size_t> seen;
  std::string output;  // printf text
  std::atomic<uint64_t> instructions{0};
  std::shared_ptr<std::vector<Tally>> tallies;  // by pc
  std::shared_ptr<GlobalShadow> shadow;

  // Asynchronous work lands after its issue: late, or (random) at some time.
  bool lazy() const { return mode == Mode::lazy || mode == Mode::lazy_reverse || mode == Mode::random; }
};

inline Launch& Warp::launch() const { return *block->launch; }

}  // namespace tilewright::vgpu
