// Schedules the warps of a block, reports deadlocks and unfinished work, and spreads the blocks over host threads.
#include <algorithm>
#include <exception>
#include <thread>

#include "interpret.h"
#include "observe.h"
#include "registry.h"
#include "special.h"

namespace tilewright::vgpu {
namespace {

constexpr uint64_t kEagerQuantum = 64;
constexpr uint64_t kSkewQuantum = 1u << 16;
constexpr uint64_t kSlice = 4'000'000;  // warp instructions before another block gets a turn

enum class Outcome : uint8_t { done, again, stuck };

uint64_t next_random(uint64_t& state) {  // xorshift64*
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545f4914f6cdd1dull;
}

// All blocks of one cluster, run by one host thread.
class Unit {
 public:
  Unit(Launch& launch, uint64_t index) : launch_(launch) {
    const uint32_t count = launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
    for (uint32_t k = 0; k < count; ++k) blocks_.push_back(std::make_unique<Block>());
    reset(index);
  }

  void reset(uint64_t index) {
    executed_ = 0;
    std::vector<Block*> all;
    for (auto& b : blocks_) all.push_back(b.get());
    for (uint32_t k = 0; k < blocks_.size(); ++k) {
      start_block(launch_, *blocks_[k], index, k);
      blocks_[k]->cluster = all;
      blocks_[k]->observer = launch_.watch ? &observer_ : nullptr;
    }
    if (launch_.watch) observe(static_cast<uint32_t>(index));
  }

  Outcome run() {
    uint64_t left = kSlice;
    while (true) {
      if (launch_.stop.load(std::memory_order_relaxed)) return Outcome::done;
      bool alive = false, ran = false;
      for (auto& b : blocks_) ran |= sweep(*b, alive);
      if (!alive) return finish();
      if (!ran && !land()) {
        deadlock();
        return Outcome::stuck;
      }
      const uint64_t now = total();
      if (now > launch_.budget) {
        runaway();
        return Outcome::stuck;
      }
      if (now - executed_ > left) {
        executed_ = now;
        return Outcome::again;
      }
    }
  }

 private:
  void observe(uint32_t index) {
    observer_.watch = launch_.watch;
    if (launch_.watch & ~kWatchRaces) observer_.tallies.assign(launch_.program->code.size(), Tally{});
    if (!(launch_.watch & kWatchRaces)) return;
    if (!observer_.race) observer_.race = std::make_unique<RaceUnit>();
    observer_.race->reset(launch_, index, blocks_);
  }

  void add_tallies() {
    if (observer_.tallies.empty()) return;
    const std::lock_guard<std::mutex> lock(launch_.mutex);
    for (size_t k = 0; k < observer_.tallies.size(); ++k) (*launch_.tallies)[k].add(observer_.tallies[k]);
    observer_.tallies.clear();
  }

  uint64_t total() const {
    uint64_t n = 0;
    for (const auto& b : blocks_)
      for (const Warp& w : b->warps) n += w.executed;
    return n;
  }

  static bool runnable(const Warp& w) { return !warp_done(w); }

  // One pass over the warps in the order of the mode. `alive`: some warp has not left yet.
  bool sweep(Block& b, bool& alive) {
    const size_t n = b.warps.size();
    bool ran = false;
    for (const Warp& w : b.warps) alive |= runnable(w);
    switch (launch_.mode) {
      case Mode::skew:
      case Mode::skew_reverse:
      case Mode::lazy_reverse:
        for (size_t k = 0; k < n; ++k) {
          const size_t at = launch_.mode == Mode::skew ? k : n - 1 - k;
          // Back to the first warp in order whenever one parks; a warp that spins lets the next ones run.
          const uint64_t before = b.warps[at].executed;
          if (!run_warp(b.warps[at], kSkewQuantum)) continue;
          ran = true;
          if (b.warps[at].executed - before < kSkewQuantum) break;
        }
        return ran;
      case Mode::random: {
        const size_t start = next_random(b.random) % n;
        if (!b.in_flight.empty() && next_random(b.random) % 8 == 0) land_one(b);
        // Every warp gets a turn: one that starves while others complete two phases of an mbarrier would miss the first.
        for (size_t k = 0; k < n; ++k) ran |= run_warp(b.warps[(start + k) % n], 1 + next_random(b.random) % 96);
        return ran;
      }
      default:
        for (Warp& w : b.warps) ran |= run_warp(w, kEagerQuantum);
        return ran;
    }
  }

  // Transfers complete in any order: the oldest first, the newest first or one at random.
  void land_one(Block& b) {
    size_t at = 0;
    if (launch_.mode == Mode::lazy_reverse) at = b.in_flight.size() - 1;
    if (launch_.mode == Mode::random) at = next_random(b.random) % b.in_flight.size();
    auto work = std::move(b.in_flight[at]);
    b.in_flight.erase(b.in_flight.begin() + static_cast<std::ptrdiff_t>(at));
    work();
  }

  bool land() {
    bool any = false;
    for (auto& b : blocks_)
      if (!b->in_flight.empty()) {
        land_one(*b);
        b->notify();
        any = true;
      }
    return any;
  }

  Outcome finish() {
    launch_.instructions += total();
    add_tallies();
    for (auto& b : blocks_) {
      if (!b->in_flight.empty())
        report_block(*b, nullptr, Kind::unfinished_work,
                     "the last warp left with a copy into shared memory in flight, whose mbarrier nothing waited for");
      while (!b->in_flight.empty()) land_one(*b);
      mbarrier_exit_check(*b);
      for (Warp& w : b->warps)
        if (w.cp_async.lanes_in_flight() | w.bulk.lanes_in_flight() | w.wgmma.lanes_in_flight()) unfinished(*b, w);
    }
    return Outcome::done;
  }

  static void unfinished(Block& b, const Warp& w) {
    const char* what = w.wgmma.lanes_in_flight() ? "wgmma.mma_async" : w.bulk.lanes_in_flight() ? "cp.async.bulk" : "cp.async";
    report_block(b, nullptr, Kind::unfinished_work,
                 "warp " + std::to_string(w.index) + " left the kernel with " + what +
                     " in flight that it never waited for");
  }

  void deadlock() {
    for (auto& b : blocks_) report_deadlock(*b);
    launch_.stop = true;
  }

  void runaway() {
    Block& b = *blocks_.front();
    const Instr* where = nullptr;
    for (auto& block : blocks_)
      for (const Warp& w : block->warps)
        if (!where && !w.paths.empty()) where = &launch_.program->code[w.paths[0].pc];
    report_block(b, where, Kind::runaway,
                 "the block ran " + std::to_string(launch_.budget) + " warp instructions without coming to its end");
    launch_.stop = true;
  }

  Launch& launch_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Observer observer_;
  uint64_t executed_ = 0;
};

// One host thread: takes clusters from the queue; one that runs long shares the thread with a fresh one, so that
// blocks which wait for each other through global memory all come to run.
void worker(Launch& launch, uint64_t units) {
  std::deque<std::unique_ptr<Unit>> resident;
  std::unique_ptr<Unit> spare;
  while (!launch.stop.load(std::memory_order_relaxed)) {
    const uint64_t next = launch.next_block.fetch_add(1, std::memory_order_relaxed);
    if (next < units) {
      if (spare) {
        spare->reset(next);
        resident.push_front(std::move(spare));
      } else {
        resident.push_front(std::make_unique<Unit>(launch, next));
      }
    } else if (resident.empty()) {
      return;
    }
    std::unique_ptr<Unit> unit = std::move(resident.front());
    resident.pop_front();
    const Outcome outcome = unit->run();
    if (outcome == Outcome::again) resident.push_back(std::move(unit));
    else if (outcome == Outcome::done) spare = std::move(unit);
  }
}

}  // namespace

void run_grid(Launch& launch) {
  const uint64_t blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const uint64_t units = blocks / (launch.cluster[0] * launch.cluster[1] * launch.cluster[2]);
  const uint64_t wanted = std::min<uint64_t>(launch.threads, units);
  if (wanted <= 1) {
    worker(launch, units);
    return;
  }
  std::vector<std::exception_ptr> failed(wanted);
  auto guarded = [&](uint64_t k) {  // such as no memory for another block
    try {
      worker(launch, units);
    } catch (...) {
      failed[k] = std::current_exception();
      launch.stop = true;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t k = 1; k < wanted; ++k) threads.emplace_back(guarded, k);
  guarded(0);
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& error : failed)
    if (error) std::rethrow_exception(error);
}

}  // namespace tilewright::vgpu
