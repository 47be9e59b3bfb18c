// Schedules the warps of a cluster, reports deadlocks inside it and unfinished work.
#include "unit.h"

#include <algorithm>

#include "registry.h"
#include "special.h"

namespace tilewright::vgpu {
namespace {

constexpr uint64_t kEagerQuantum = 64;
constexpr uint64_t kSkewQuantum = 1u << 16;
// Warp instructions before the first look for loops that repeat themselves; looks in vain double the distance.
constexpr uint64_t kFirstTest = 1u << 12, kLastTest = 1u << 22;
constexpr uint64_t kTestShare = 64;  // a look takes at most this part of the distance

void unfinished(Block& b, const Warp& w) {
  const char* what = w.wgmma.lanes_in_flight() ? "wgmma.mma_async" : w.bulk.lanes_in_flight() ? "cp.async.bulk" : "cp.async";
  report_block(b, nullptr, Kind::unfinished_work,
               "warp " + std::to_string(w.index) + " left the kernel with " + what +
                   " in flight that it never waited for");
}

// setmaxnreg.sync.aligned: all warps of a warpgroup run the same ones.
void check_register_changes(Block& b) {
  for (size_t k = 0; k < b.warps.size(); ++k) {
    Warp& w = b.warps[k];
    Warp& first = b.warps[k / 4 * 4];
    if (w.register_changes == first.register_changes) continue;
    Warp& changed = w.register_change ? w : first;
    report(changed, *changed.register_change, Kind::illegal, changed.exist,
           "warps " + std::to_string(first.index) + " and " + std::to_string(w.index) +
               " of one warpgroup run different setmaxnreg instructions");
    return;
  }
}

bool reversed(Mode mode) { return mode == Mode::skew_reverse || mode == Mode::lazy_reverse; }

}  // namespace

uint64_t next_random(uint64_t& state) {  // xorshift64*
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545f4914f6cdd1dull;
}

Unit::Unit(Launch& launch, uint64_t index) : launch_(launch) {
  const uint32_t count = launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
  for (uint32_t k = 0; k < count; ++k) blocks_.push_back(std::make_unique<Block>());
  reset(index);
}

void Unit::reset(uint64_t index) {
  executed_ = 0;
  test_at_ = test_step_ = kFirstTest;
  idle_ = false;
  std::vector<Block*> all;
  for (auto& b : blocks_) all.push_back(b.get());
  for (uint32_t k = 0; k < blocks_.size(); ++k) {
    start_block(launch_, *blocks_[k], index, k);
    blocks_[k]->cluster = all;
    blocks_[k]->observer = launch_.run->watch ? &observer_ : nullptr;
  }
  number_ = launch_.first_unit + static_cast<uint32_t>(index);
  if (launch_.run->watch) observe();
}

Outcome Unit::run(uint64_t slice) {
  moved_ = false;
  for (auto& b : blocks_) wake(*b);
  if (idle_ && settle(kLongLoop)) return Outcome::idle;
  idle_ = false;
  while (true) {
    if (launch_.run->stop.load(std::memory_order_relaxed)) return Outcome::done;
    bool alive = false, ran = false;
    for (auto& b : blocks_) ran |= sweep(*b, alive);
    moved_ |= ran;
    if (!alive) return finish();
    if (!ran && !land()) {
      if (!spinning()) {
        deadlock();
        return Outcome::stuck;
      }
      // What they wait for may have come from this very cluster.
      for (auto& b : blocks_) wake(*b);
      if (settle(kLongLoop)) {
        idle_ = true;
        return Outcome::idle;
      }
    }
    const uint64_t now = total();
    if (now > launch_.run->budget) {
      runaway();
      return Outcome::stuck;
    }
    if (now > test_at_) test(now);
    if (now - executed_ > slice) {
      executed_ = now;
      return Outcome::again;
    }
  }
}

void Unit::test(uint64_t now) {
  const auto steps = static_cast<uint32_t>(std::min<uint64_t>(test_step_ / kTestShare, kLongLoop));
  test_step_ = settle(steps) ? kFirstTest : std::min(2 * test_step_, kLastTest);
  test_at_ = now + test_step_;
}

// Runs the warps in the order of the mode until one does something else than to wait. True: all wait.
bool Unit::settle(uint32_t steps) {
  for (auto& b : blocks_)
    for (size_t k = 0; k < b->warps.size(); ++k)
      if (!settle_warp(in_order(*b, k), steps, moved_)) return false;
  for (auto& b : blocks_)
    if (!b->in_flight.empty()) return false;
  return spinning();
}

bool Unit::spinning() const {
  for (const auto& b : blocks_)
    for (const Warp& w : b->warps)
      for (const Path& p : w.paths)
        if (p.state == Path::State::spinning) return true;
  return false;
}

void Unit::observe() {
  const uint32_t watch = launch_.run->watch;
  observer_.watch = watch;
  if (watch & ~kWatchRaces) observer_.tallies.assign(launch_.program->code.size(), Tally{});
  if (!(watch & kWatchRaces)) return;
  if (!observer_.race) observer_.race = std::make_unique<RaceUnit>();
  observer_.race->reset(launch_, number_, blocks_);
}

void Unit::add_tallies() {
  if (observer_.tallies.empty()) return;
  const std::lock_guard<std::mutex> lock(launch_.run->mutex);
  for (size_t k = 0; k < observer_.tallies.size(); ++k) (*launch_.tallies)[k].add(observer_.tallies[k]);
  observer_.tallies.clear();
}

uint64_t Unit::total() const {
  uint64_t n = 0;
  for (const auto& b : blocks_)
    for (const Warp& w : b->warps) n += w.executed;
  return n;
}

Warp& Unit::in_order(Block& b, size_t k) const {
  return b.warps[reversed(launch_.run->mode) ? b.warps.size() - 1 - k : k];
}

// One pass over the warps in the order of the mode. `alive`: some warp has not left yet.
bool Unit::sweep(Block& b, bool& alive) {
  const size_t n = b.warps.size();
  bool ran = false;
  for (const Warp& w : b.warps) alive |= !warp_done(w);
  switch (launch_.run->mode) {
    case Mode::skew:
    case Mode::skew_reverse:
    case Mode::lazy_reverse:
      for (size_t k = 0; k < n; ++k) {
        Warp& w = in_order(b, k);
        // Back to the first warp in order whenever one parks; a warp that spins lets the next ones run.
        const uint64_t before = w.executed;
        if (!run_warp(w, kSkewQuantum)) continue;
        ran = true;
        if (w.executed - before < kSkewQuantum) break;
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
void Unit::land_one(Block& b) {
  size_t at = 0;
  if (launch_.run->mode == Mode::lazy_reverse) at = b.in_flight.size() - 1;
  if (launch_.run->mode == Mode::random) at = next_random(b.random) % b.in_flight.size();
  auto work = std::move(b.in_flight[at]);
  b.in_flight.erase(b.in_flight.begin() + static_cast<std::ptrdiff_t>(at));
  work();
}

bool Unit::land() {
  bool any = false;
  for (auto& b : blocks_)
    if (!b->in_flight.empty()) {
      land_one(*b);
      b->notify();
      any = true;
    }
  moved_ |= any;
  return any;
}

Outcome Unit::finish() {
  launch_.run->instructions += total();
  add_tallies();
  for (auto& b : blocks_) {
    if (!b->in_flight.empty())
      report_block(*b, nullptr, Kind::unfinished_work,
                   "the last warp left with a copy into shared memory in flight, whose mbarrier nothing waited for");
    while (!b->in_flight.empty()) land_one(*b);
    mbarrier_exit_check(*b);
    check_register_changes(*b);
    for (Warp& w : b->warps) w.bulk.land_read();
    for (Warp& w : b->warps)
      if (w.cp_async.lanes_in_flight() | w.bulk.lanes_in_flight() | w.wgmma.lanes_in_flight()) unfinished(*b, w);
  }
  moved_ = true;
  return Outcome::done;
}

void Unit::deadlock() {
  for (auto& b : blocks_)
    if (const std::string text = waiting_text(*b); !text.empty())
      report_wait(*b, first_wait(*b), Kind::deadlock, text, wait_cause(*b));
  launch_.run->stop = true;
}

std::string Unit::waiting() const {
  std::string all;
  for (const auto& b : blocks_) {
    const std::string text = waiting_text(*b);
    if (text.empty()) continue;
    if (b->rank) all += "; block rank " + std::to_string(b->rank) + ": ";
    all += text;
  }
  return all;
}

Site Unit::wait_site() const {
  for (const auto& b : blocks_)
    if (const Site s = first_wait(*b); s.line) return s;
  return {};
}

bool Unit::waits_for_memory() const {
  for (const auto& b : blocks_)
    for (const Warp& w : b->warps)
      for (const Path& p : w.paths)
        if (p.wait.what == kSpin && p.wait.where) return true;
  return false;
}

void Unit::runaway() {
  Block& b = *blocks_.front();
  const Instr* where = nullptr;
  for (auto& block : blocks_)
    for (const Warp& w : block->warps)
      if (!where && !w.paths.empty()) where = &launch_.program->code[w.paths[0].pc];
  std::string text =
      "the block ran " + std::to_string(launch_.run->budget) + " warp instructions without coming to its end";
  for (auto& block : blocks_)
    for (Warp& w : block->warps)
      if (const std::string memory = warp_done(w) ? "" : polled(w, kLongLoop); !memory.empty()) {
        report_block(b, where, Kind::runaway, text + ": " + memory);
        launch_.run->stop = true;
        return;
      }
  report_block(b, where, Kind::runaway, text);
  launch_.run->stop = true;
}

}  // namespace tilewright::vgpu
