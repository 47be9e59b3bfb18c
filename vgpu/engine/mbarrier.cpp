#include "mbarrier.h"

#include <algorithm>
#include <cstring>

#include "collective.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {

MBarrier MBarrier::unpack(uint64_t state) {
  MBarrier b;
  b.pending = state & kMaxCount;
  b.expected = state >> 20 & kMaxCount;
  b.tx = static_cast<int32_t>(state >> 40 & 0x1fffff) - (1 << 20);
  b.phase = static_cast<uint32_t>(state >> 61);
  return b;
}

uint64_t MBarrier::pack() const {
  const auto biased = static_cast<uint64_t>(tx + (1 << 20)) & 0x1fffff;
  return pending | uint64_t{expected} << 20 | biased << 40 | uint64_t{phase} << 61;
}

namespace {

uint8_t* cell(Block& owner, uint32_t address) { return owner.smem.data() + (address & kSharedOffset); }

MBarrier load(Block& owner, uint32_t address) {
  uint64_t state;
  std::memcpy(&state, cell(owner, address), 8);
  return MBarrier::unpack(state);
}

void store(Block& owner, uint32_t address, const MBarrier& b) {
  const uint64_t state = b.pack();
  std::memcpy(cell(owner, address), &state, 8);
}

std::string text(const MBarrier& b) {
  return "phase parity " + std::to_string(b.phase & 1) + ", " + std::to_string(b.pending) + " of " +
         std::to_string(b.expected) + " arrivals pending, tx-count " + std::to_string(b.tx);
}

void wake(Block& owner) {
  if (owner.cluster.empty()) return owner.notify();
  for (Block* b : owner.cluster) b->notify();
}

// Stores the barrier, completing its phase when that is due. Returns whether it was.
bool settle(Block& owner, uint32_t address, MBarrier b) {
  const bool complete = b.pending == 0 && b.tx == 0;
  if (complete) {
    b.pending = b.expected;
    b.phase = (b.phase + 1) & 7;
  }
  store(owner, address, b);
  if (complete) {
    MBarrierLog& log = owner.mbarrier_logs[address & kSharedOffset];
    ++log.phase;
    log.announced = log.transferred = 0;
    log.announcer = nullptr;
    observe_mbarrier_phase(owner, address);
    wake(owner);
  }
  return complete;
}

void misuse(Block& owner, const Instr& i, uint32_t address, const std::string& what) {
  report_block(owner, &i, Kind::mbarrier, "mbarrier at shared " + hex(address & kSharedOffset) + ": " + what);
}

// Calls body(lane, address) for every lane whose operand names an initialised barrier.
template <typename Body>
Step for_barriers(Warp& w, const Instr& i, Mask m, uint32_t op, const int64_t* place, Body body) {
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    uint32_t address;
    if (!shared_address(w, i, lane, op, place[0], place[1], i.imm[0] != 0, address)) return Step::fault;
    if (!mbarrier_check(w, i, lane, address)) return Step::fault;
    body(lane, address);
  }
  return Step::next;
}

// imm: generic, offset, base bytes. ops: address, count.
Step init(Warp& w, const Instr& i, Mask m) {
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    uint32_t address;
    if (!shared_address(w, i, lane, i.ops[0], i.imm[1], i.imm[2], i.imm[0] != 0, address)) return Step::fault;
    const uint32_t count = w.r32(i.ops[1])[lane];
    if (count == 0 || count > MBarrier::kMaxCount) {
      report(w, i, Kind::mbarrier, 1u << lane, "mbarrier.init with count " + std::to_string(count));
      return Step::fault;
    }
    if (!shared_write(w, i, lane, address, 8, 8)) return Step::fault;
    MBarrier fresh;
    fresh.pending = fresh.expected = count;
    store(*w.block, address, fresh);
    const auto [known, first] = w.block->mbarriers.try_emplace(address & kSharedOffset, &i);
    if (!first)
      misuse(*w.block, i, address,
             "initialised again, after PTX line " + std::to_string(known->second->line) + ", without mbarrier.inval");
    known->second = &i;
    w.block->mbarrier_logs[address & kSharedOffset] = {};
    observe_mbarrier_init(w, i, lane, address);
  }
  return Step::next;
}

Step inval(Warp& w, const Instr& i, Mask m) {
  return for_barriers(w, i, m, i.ops[0], i.imm + 1, [&](int, uint32_t address) {
    shared_owner(*w.block, address)->mbarriers.erase(address & kSharedOffset);
  });
}

void log_arrival(Warp& w, const Instr& i, Block& owner, uint32_t address, uint32_t count) {
  MBarrierLog& log = owner.mbarrier_logs[address & kSharedOffset];
  for (MBarrierArrival& a : log.arrivals) {
    if (a.rank != w.block->rank || a.warp != w.index) continue;
    a.arrivals = (a.phase == log.phase ? a.arrivals : 0) + count;
    a.phase = log.phase;
    a.instr = &i;
    return;
  }
  log.arrivals.push_back({w.block->rank, w.index, &i, log.phase, count});
}

void log_announcement(Warp& w, const Instr& i, int lane, uint32_t address, int64_t bytes) {
  MBarrierLog& log = shared_owner(*w.block, address)->mbarrier_logs[address & kSharedOffset];
  log.announced += bytes;
  log.announcer = &i;
  log.rank = w.block->rank;
  log.warp = w.index;
  log.lane = lane;
}

// imm: generic, expect_tx, noComplete, drop, has state operand, offset, base bytes. ops: [state], address, [number].
// With expect_tx the number is bytes, else the count of arrivals.
Step arrive(Warp& w, const Instr& i, Mask m) {
  const uint32_t at = i.imm[4] ? 1 : 0;
  const bool expect = i.imm[1] != 0, has_number = i.op_count > at + 1u;
  uint32_t last = ~0u, finished = ~0u;
  return for_barriers(w, i, m, i.ops[at], i.imm + 5, [&](int lane, uint32_t address) {
    Block& owner = *shared_owner(*w.block, address);
    if (address == finished) mbarrier_split_arrival(*w.block, i, address);
    const uint32_t number = has_number ? w.r32(i.ops[at + 1])[lane] : 1;
    log_arrival(w, i, owner, address, expect ? 1 : number);
    if (w.block->observer) {
      if (address != last) observe_mbarrier_use(w, i, lane, address);
      if (address != last) observe_mbarrier_arrive(w, i, address);
      last = address;
    }
    if (at) w.r64(i.ops[0])[lane] = load(owner, address).pack();
    if (i.imm[3]) {
      MBarrier b = load(owner, address);
      b.expected -= std::min(b.expected, expect ? 1u : number);
      store(owner, address, b);
    }
    if (expect) log_announcement(w, i, lane, address, number);
    if (expect) mbarrier_add_tx(*w.block, i, address, number);
    const bool completed = mbarrier_arrive(*w.block, i, address, expect ? 1 : number);
    if (completed) last = ~0u;
    if (completed) finished = address;
    if (i.imm[2] && completed) misuse(owner, i, address, "a .noComplete arrival completed the phase");
  });
}

// imm: generic, sign, offset, base bytes. ops: address, bytes.
Step change_tx(Warp& w, const Instr& i, Mask m) {
  return for_barriers(w, i, m, i.ops[0], i.imm + 2, [&](int lane, uint32_t address) {
    const int64_t bytes = i.imm[1] * int64_t{w.r32(i.ops[1])[lane]};
    if (bytes > 0) log_announcement(w, i, lane, address, bytes);
    mbarrier_add_tx(*w.block, i, address, bytes);
  });
}

struct Test {
  bool done;
  uint32_t phase;  // the barrier's phase when it was tested
};

Test test(Warp& w, const Instr& i, int lane, uint32_t address) {
  const MBarrier b = load(*shared_owner(*w.block, address), address);
  if (i.imm[1]) return {(b.phase & 1) != (w.r32(i.ops[2])[lane] & 1), b.phase};
  return {b.phase != MBarrier::unpack(w.r64(i.ops[2])[lane]).phase, b.phase};
}

// A parked waiter keeps the phase it waits for in Wait::detail above the parity.
constexpr const char* kParked = "mbarrier";
constexpr const char* kPolled = "mbarrier poll";

bool overrun(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t phase) {
  const Wait& wait = w.path().wait;
  if (std::strcmp(wait.what, kParked) != 0 || wait.where != address) return false;
  const uint32_t parked = static_cast<uint32_t>(wait.detail >> 1);
  if (((phase - parked) & 7) < 2) return false;
  report(w, i, Kind::mbarrier, 1u << lane,
         "mbarrier at shared " + hex(address & kSharedOffset) +
             " completed a second phase before this waiter saw the first: arrivals do not wait for the reader");
  return true;
}

// A failed test_wait goes on; when nothing happened since the last one it waits for an event, or it would spin.
Step poll(Warp& w, uint32_t address) {
  const Wait& last = w.path().wait;
  const uint64_t event = w.block->event;
  const bool spins = std::strcmp(last.what, kPolled) == 0 && last.where == address && last.detail == event;
  w.path().wait = {kPolled, address, event};
  w.wait_on = w.path().wait;
  return spins ? Step::retry : Step::next;
}

// imm: generic, parity, parks, offset, base bytes. ops: predicate, address, parity or state, [time limit].
Step wait(Warp& w, const Instr& i, Mask m) {
  Mask done = 0;
  uint32_t pending_address = 0, pending_phase = 0, last = ~0u, used = ~0u;
  bool wrong = false;
  const Step step = for_barriers(w, i, m, i.ops[1], i.imm + 3, [&](int lane, uint32_t address) {
    if (w.block->observer && address != used) observe_mbarrier_use(w, i, lane, address);
    used = address;
    const Test result = test(w, i, lane, address);
    wrong = wrong || overrun(w, i, lane, address, result.phase);
    if (result.done) {
      done |= 1u << lane;
      if (w.block->observer && address != last) observe_mbarrier_wait(w, i, address);
      last = address;
    } else {
      pending_address = address;
      pending_phase = result.phase;
    }
  });
  if (step != Step::next || wrong) return Step::fault;
  if (done == m) {
    w.path().wait = {};
  } else if (i.imm[2]) {
    w.wait_on = {kParked, pending_address, uint64_t{pending_phase} << 1 | (pending_phase & 1)};
    return Step::retry;
  }
  w.set_pred(i.ops[0], done, m);
  return done == m ? Step::next : poll(w, pending_address);
}

// ops: count, state.
Step pending_count(Warp& w, const Instr& i, Mask m) {
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    w.r32(i.ops[0])[lane] = MBarrier::unpack(w.r64(i.ops[1])[lane]).pending;
  }
  return Step::next;
}

}  // namespace

bool mbarrier_check(Warp& w, const Instr& i, int lane, uint32_t address) {
  if (!shared_at(w, i, lane, address, 8, 8)) return false;
  const Block& owner = *shared_owner(*w.block, address);
  if (owner.mbarriers.count(address & kSharedOffset)) return true;
  report(w, i, Kind::mbarrier, 1u << lane,
         "shared " + hex(address & kSharedOffset) + " holds no mbarrier: no mbarrier.init ran for it");
  return false;
}

void mbarrier_split_arrival(Block& from, const Instr& i, uint32_t address) {
  Block& owner = *shared_owner(from, address);
  misuse(owner, i, address,
         "threads that arrive by one instruction fall into two phases: more arrive than its count of " +
             std::to_string(load(owner, address).expected));
}

bool mbarrier_arrive(Block& from, const Instr& i, uint32_t address, uint32_t count) {
  Block& owner = *shared_owner(from, address);
  MBarrier b = load(owner, address);
  if (count > b.pending) {
    misuse(owner, i, address, "arrival count underflow, " + std::to_string(count) + " arrive but " + text(b));
    count = b.pending;
  }
  b.pending -= count;
  return settle(owner, address, b);
}

void mbarrier_announce(Block& from, const Instr& i, uint32_t address) {
  Block& owner = *shared_owner(from, address);
  MBarrier b = load(owner, address);
  if (b.pending == MBarrier::kMaxCount) return misuse(owner, i, address, "pending count overflow");
  ++b.pending;
  store(owner, address, b);
}

void mbarrier_add_tx(Block& from, const Instr& i, uint32_t address, int64_t bytes) {
  Block& owner = *shared_owner(from, address);
  MBarrier b = load(owner, address);
  const int64_t sum = b.tx + bytes;
  if (sum > MBarrier::kMaxTx || sum < -MBarrier::kMaxTx) {
    misuse(owner, i, address, "tx-count " + std::to_string(sum) + " is beyond its range");
    return;
  }
  b.tx = static_cast<int32_t>(sum);
  if (bytes < 0) {
    owner.mbarrier_logs[address & kSharedOffset].transferred -= bytes;
    settle(owner, address, b);
  } else {
    store(owner, address, b);
  }
}

Site announcement(const Block& b, uint32_t offset) {
  Site s;
  const auto it = b.mbarrier_logs.find(offset);
  if (it == b.mbarrier_logs.end() || !it->second.announcer) return s;
  const MBarrierLog& log = it->second;
  const Block& from = *b.cluster[log.rank];
  s.block[0] = from.x;
  s.block[1] = from.y;
  s.block[2] = from.z;
  s.warp = static_cast<int32_t>(log.warp);
  s.lane = log.lane;
  s.line = log.announcer->line;
  s.launch = b.launch->index;
  return s;
}

void mbarrier_exit_check(Block& b) {
  for (const auto& [offset, init] : b.mbarriers) {
    const MBarrier state = load(b, offset);
    if (state.tx == 0) continue;
    const Site site = announcement(b, offset);
    const std::string text = "mbarrier at shared " + hex(offset) + " is left with tx-count " + std::to_string(state.tx) +
                             ": the bytes expected and the bytes transferred differ";
    if (site.line) report_wait(b, site, Kind::unfinished_work, text, {});
    else report_block(b, init, Kind::unfinished_work, text);
  }
}

std::string mbarrier_state(Block& b, uint32_t offset) {
  return b.mbarriers.count(offset) ? text(load(b, offset)) : "not initialised";
}

void register_mbarrier(Registry& r) {
  r.add("mbarrier.init", init);
  r.add("mbarrier.inval", inval);
  r.add("mbarrier.arrive", arrive);
  r.add("mbarrier.tx", change_tx);
  r.add("mbarrier.wait", wait);
  r.add("mbarrier.pending_count", pending_count);
}

}  // namespace tilewright::vgpu
