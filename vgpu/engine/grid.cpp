// Spreads the clusters of all grids over host threads, so that all come to run, and finds when none can go on.
#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "unit.h"

namespace tilewright::vgpu {
namespace {

constexpr uint64_t kSlice = 4'000'000;  // warp instructions before another cluster gets a turn
constexpr uint64_t kShared = 20'000;    // the same when several grids run at once
constexpr size_t kMaxResident = 1024;   // clusters of a host thread that wait before no more are started
constexpr size_t kMaxNamed = 6;
constexpr uint64_t kFirstSkip = 1u << 16, kLongestWait = uint64_t{1} << 50;  // nanoseconds; the longest are 13 days
constexpr auto kPause = std::chrono::microseconds(100);

// Nobody can go on when every host thread went once round its clusters, found all of them waiting, and no cluster of
// any thread moved since it began.
class Quiet {
 public:
  explicit Quiet(size_t workers) : since_(workers, -1) {}

  int64_t now() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return moves_;
  }

  void moved(size_t worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++moves_;
    since_[worker] = -1;
  }

  void left(size_t worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    since_[worker] = kLeft;
  }

  // All of the worker's clusters waited since the moment `since`. True: so do those of all workers.
  bool waits(size_t worker, int64_t since) {
    const std::lock_guard<std::mutex> lock(mutex_);
    since_[worker] = since;
    return std::all_of(since_.begin(), since_.end(), [&](int64_t s) { return s == kLeft || s == moves_; });
  }

 private:
  static constexpr int64_t kLeft = INT64_MAX;
  std::mutex mutex_;
  int64_t moves_ = 0;
  std::vector<int64_t> since_;
};

// One host thread: one cluster of each grid at first, and a further one when one left, ran long, or all wait: clusters
// that wait for each other through global memory all come to run.
class Worker {
 public:
  Worker(Run& run, Quiet& quiet, size_t index)
      : run_(run), quiet_(quiet), index_(index), spare_(run.launches.size()), random_(run.seed * 2 + 2 * index + 1) {}

  void work() {
    while (!run_.stop.load(std::memory_order_relaxed)) {
      if (resident_.size() < run_.launches.size() || ran_ >= kSlice) start();
      if (resident_.empty()) break;
      if (waiting_ == 0) round_ = quiet_.now();
      turn();
      if (waiting_ && waiting_ >= resident_.size()) all_wait();
    }
    quiet_.left(index_);
  }

  std::deque<std::unique_ptr<Unit>>& resident() { return resident_; }
  bool dead() const { return dead_; }

 private:
  size_t here(const Launch& l) const {
    return static_cast<size_t>(std::count_if(resident_.begin(), resident_.end(),
                                             [&](const auto& u) { return &u->launch() == &l; }));
  }

  // The next cluster of the grid that has the fewest here.
  bool start() {
    ran_ = 0;
    const bool last_first = run_.mode == Mode::skew_reverse || run_.mode == Mode::lazy_reverse;
    Launch* best = nullptr;
    size_t fewest = 0;
    for (size_t k = 0; k < run_.launches.size(); ++k) {
      Launch& l = run_.launches[last_first ? run_.launches.size() - 1 - k : k];
      if (l.next_unit.load(std::memory_order_relaxed) >= l.units()) continue;
      const size_t count = run_.launches.size() > 1 ? here(l) : 0;
      if (best && count >= fewest) continue;
      best = &l;
      fewest = count;
    }
    if (!best) return false;
    const uint64_t next = best->next_unit.fetch_add(1, std::memory_order_relaxed);
    if (next >= best->units()) return false;
    std::unique_ptr<Unit> unit = std::move(spare_[best->index]);
    if (unit) unit->reset(next);
    else unit = std::make_unique<Unit>(*best, next);
    if (run_.launches.size() > 1) resident_.push_back(std::move(unit));
    else resident_.push_front(std::move(unit));
    waiting_ = 0;
    return true;
  }

  std::unique_ptr<Unit> pick() {
    const size_t at = run_.mode == Mode::random ? next_random(random_) % resident_.size() : 0;
    std::unique_ptr<Unit> unit = std::move(resident_[waiting_ ? 0 : at]);
    resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(waiting_ ? 0 : at));
    return unit;
  }

  // In the skewed modes one grid goes as far as it can before the next one.
  uint64_t slice() {
    const bool skewed = run_.mode != Mode::eager && run_.mode != Mode::lazy && run_.mode != Mode::random;
    if (run_.launches.size() == 1 || skewed) return kSlice;
    return run_.mode == Mode::random ? 1 + next_random(random_) % kShared : kShared;
  }

  void turn() {
    std::unique_ptr<Unit> unit = pick();
    const uint64_t slice = this->slice();
    const Outcome outcome = unit->run(slice);
    if (unit->moved()) {
      quiet_.moved(index_);
      waiting_ = 0;
    }
    if (run_.stop.load(std::memory_order_relaxed)) return resident_.push_back(std::move(unit));
    if (outcome == Outcome::done) {
      const uint32_t of = unit->launch().index;
      spare_[of] = std::move(unit);
      return;
    }
    if (outcome == Outcome::again) ran_ += slice;
    else if (!unit->moved()) ++waiting_;
    resident_.push_back(std::move(unit));
  }

  void all_wait() {
    if (resident_.size() < kMaxResident && start()) return;
    if (quiet_.waits(index_, round_)) {
      if (skip_time()) return;
      dead_ = true;
      run_.stop = true;
      return;
    }
    waiting_ = 0;
    std::this_thread::sleep_for(kPause);
  }

  // Where loops look at a clock, the clocks go ahead, twice as far each time: a wait with a time limit ends so.
  bool skip_time() {
    const uint64_t so_far = run_.skipped.load();
    if (so_far >= kLongestWait || !run_.timed.exchange(false)) return false;
    run_.skipped = 2 * so_far + kFirstSkip;
    quiet_.moved(index_);
    waiting_ = 0;
    return true;
  }

  Run& run_;
  Quiet& quiet_;
  size_t index_;
  std::deque<std::unique_ptr<Unit>> resident_;
  std::vector<std::unique_ptr<Unit>> spare_;  // by grid
  uint64_t random_;
  uint64_t ran_ = 0;     // warp instructions in full slices since the last start
  size_t waiting_ = 0;   // clusters in a row that only waited
  int64_t round_ = 0;    // Quiet::now() before the first of them
  bool dead_ = false;
};

std::string block_text(const Run& run, const Block& b) {
  std::string text = run.launches.size() > 1 ? "device " + std::to_string(b.launch->device) + " " : "";
  return text + "block (" + std::to_string(b.x) + ", " + std::to_string(b.y) + ", " + std::to_string(b.z) + "): ";
}

// All clusters that began wait, for parts of memory that nobody will write.
void report_standstill(Run& run, std::vector<std::unique_ptr<Worker>>& workers) {
  std::vector<const Unit*> units;
  for (auto& w : workers)
    for (auto& u : w->resident()) units.push_back(u.get());
  std::sort(units.begin(), units.end(), [](const Unit* a, const Unit* b) { return a->number() < b->number(); });
  std::string text;
  bool memory = false;
  for (size_t k = 0; k < units.size(); ++k) {
    memory = memory || units[k]->waits_for_memory();
    if (k < kMaxNamed) text += (k ? "; " : "") + block_text(run, units[k]->front()) + units[k]->waiting();
  }
  if (units.size() > kMaxNamed) text += "; and " + std::to_string(units.size() - kMaxNamed) + " more blocks";
  uint64_t later = 0;
  for (const Launch& l : run.launches) later += l.units() - std::min<uint64_t>(l.units(), l.next_unit);
  if (later) text += "; " + std::to_string(later) + " blocks had no room to start";
  Site other;
  if (units.size() > 1) other = units[1]->wait_site();
  report_wait(units[0]->front(), units[0]->wait_site(), memory ? Kind::deadlock : Kind::runaway,
              text, other);
}

}  // namespace

void run_grids(Run& run) {
  uint64_t units = 0;
  for (const Launch& l : run.launches) units += l.units();
  const auto wanted = static_cast<size_t>(std::max<uint64_t>(1, std::min<uint64_t>(run.threads, units)));
  Quiet quiet(wanted);
  std::vector<std::unique_ptr<Worker>> workers;
  for (size_t k = 0; k < wanted; ++k) workers.push_back(std::make_unique<Worker>(run, quiet, k));
  std::vector<std::exception_ptr> failed(wanted);
  auto guarded = [&](size_t k) {  // such as no memory for another block
    try {
      workers[k]->work();
    } catch (...) {
      failed[k] = std::current_exception();
      run.stop = true;
    }
  };
  std::vector<std::thread> threads;
  for (size_t k = 1; k < wanted; ++k) threads.emplace_back(guarded, k);
  guarded(0);
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& error : failed)
    if (error) std::rethrow_exception(error);
  if (std::any_of(workers.begin(), workers.end(), [](const auto& w) { return w->dead(); }))
    report_standstill(run, workers);
}

}  // namespace tilewright::vgpu
