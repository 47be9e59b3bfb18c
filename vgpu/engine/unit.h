// The blocks of one cluster, run by one host thread at a time.
#pragma once

#include "interpret.h"
#include "observe.h"

namespace tilewright::vgpu {

// done    left or given up
// again   the slice is used up
// idle    every path is parked or repeats itself until other blocks write to memory
// stuck   every path is parked, nothing can wake them: reported
enum class Outcome : uint8_t { done, again, idle, stuck };

class Unit {
 public:
  Unit(Launch& launch, uint64_t index);
  void reset(uint64_t index);
  // Runs about `slice` warp instructions.
  Outcome run(uint64_t slice);
  // Whether the last run did anything that other blocks may see, or came further.
  bool moved() const { return moved_; }
  Launch& launch() const { return launch_; }
  uint32_t number() const { return number_; }  // in the run
  Block& front() const { return *blocks_.front(); }
  // What an idle unit waits for: in words, the first of the waits, and whether any reads memory.
  std::string waiting() const;
  Site wait_site() const;
  bool waits_for_memory() const;

 private:
  void observe();
  void add_tallies();
  uint64_t total() const;
  bool sweep(Block& b, bool& alive);
  Warp& in_order(Block& b, size_t k) const;
  void land_one(Block& b);
  bool land();
  bool spinning() const;
  bool settle(uint32_t steps);
  void test(uint64_t now);
  Outcome finish();
  void deadlock();
  void runaway();

  Launch& launch_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Observer observer_;
  uint32_t number_ = 0;
  uint64_t executed_ = 0;
  uint64_t test_at_ = 0, test_step_ = 0;  // when to look for loops that repeat themselves
  bool moved_ = false;
  bool idle_ = false;
};

// spin.cpp: runs a warp until every path is parked; a path whose loop comes back to the same state within `steps`
// instructions, with nothing written in between, is parked as spinning. False: it does something else; `effects`: other
// blocks may see it.
bool settle_warp(Warp& w, uint32_t steps, bool& effects);
// Which memory the warp reads again and again within `steps` instructions from here; "" when none.
std::string polled(Warp& w, uint32_t steps);
constexpr uint32_t kLongLoop = 4096;
void wake(Block& b);

uint64_t next_random(uint64_t& state);

}  // namespace tilewright::vgpu
