// bar / barrier: named barriers 0-15 of a block (sync, arrive, red) and barrier.cluster.
#include <map>

#include "interpret.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

const char* const kBar = "bar.sync";
const char* const kWarpBar = "bar.warp.sync";

uint32_t live_threads(const Block& b) {
  uint32_t n = 0;
  for (const Warp& w : b.warps) n += static_cast<uint32_t>(__builtin_popcount(w.exist & ~w.exited));
  return n;
}

enum Reduction : int64_t { kNone = 0, kPopc = 1, kAnd = 2, kOr = 3 };

void write_result(Block& b, const Arrival& a, const NamedBarrier& bar) {
  const auto kind = static_cast<Reduction>(a.instr->imm[1]);
  if (kind == kNone) return;
  Warp& w = b.warps[a.warp];
  if (kind == kPopc) {
    uint32_t* d = w.r32(a.instr->ops[0]);
    for (int l = 0; l < kLanes; ++l)
      if (a.lanes >> l & 1) d[l] = bar.count;
    return;
  }
  const bool value = kind == kAnd ? bar.count == bar.threads : bar.count > 0;
  w.set_pred(a.instr->ops[0], value ? kFull : 0, a.lanes);
}

// Lanes that leave at once may be missing at an aligned barrier: CUDA C lets threads return early.
bool leaves(const Warp& w, const Path& p) {
  const Instr* i = &w.launch().program->code[p.pc];
  for (int k = 0; k < 4 && i->run == op_bra && i->guard < 0; ++k) i = &w.launch().program->code[static_cast<size_t>(i->imm[0])];
  const std::string& name = registry().names()[i->handler];
  return i->guard < 0 && (name == "ret" || name == "exit");
}

Mask lanes_elsewhere(const Warp& w, Mask here) {
  Mask out = 0;
  for (const Path& p : w.paths)
    if (p.state != Path::State::held && !leaves(w, p)) out |= p.mask & ~here;
  return out;
}

// Lanes that were on their way elsewhere and never came.
void check_absent(Block& b, const NamedBarrier& bar) {
  for (const Arrival& x : bar.arrivals) {
    Mask absent = x.elsewhere;
    for (const Arrival& y : bar.arrivals)
      if (x.warp == y.warp) absent &= ~y.lanes;
    if (!absent) continue;
    report(b.warps[x.warp], *x.instr, Kind::barrier, x.lanes,
           "divergent barrier: lanes " + hex(x.lanes) + " of the warp wait here, lanes " + hex(absent) + " go on without it");
    return;
  }
}

// Lanes of one warp must reach an aligned barrier by the same instruction.
void check_divergence(Block& b, const NamedBarrier& bar) {
  for (const Arrival& x : bar.arrivals)
    for (const Arrival& y : bar.arrivals)
      if (x.warp == y.warp && x.instr != y.instr && x.instr->imm[0] && x.instr->line < y.instr->line)
        report(b.warps[x.warp], *x.instr, Kind::barrier, x.lanes,
               "divergent barrier: lanes " + hex(x.lanes) + " of the warp wait here, lanes " + hex(y.lanes) +
                   " at PTX line " + std::to_string(y.instr->line));
}

// A warp that arrived in parts counts as a whole once all its threads that have not left the kernel did.
uint32_t arrived_in_parts(const Block& b, const NamedBarrier& bar) {
  std::map<unsigned, Mask> lanes;
  for (const Arrival& a : bar.arrivals)
    if (!a.whole) lanes[a.warp] |= a.lanes;
  uint32_t threads = 0;
  for (const auto& [index, here] : lanes) {
    const Warp& w = b.warps[index];
    const bool whole = (w.exist & ~w.exited & ~here) == 0;
    threads += whole ? 32 : static_cast<uint32_t>(__builtin_popcount(here));
  }
  return threads;
}

bool complete(const Block& b, const NamedBarrier& bar) {
  if (bar.arrivals.empty()) return false;
  if (!bar.expected) return bar.threads >= live_threads(b);
  return bar.arrived + (bar.divided ? arrived_in_parts(b, bar) : 0) >= bar.expected;
}

// Lets everyone go on; the last arrival itself is not held yet, so releasing it changes nothing.
void finish(Block& b, NamedBarrier& bar) {
  check_divergence(b, bar);
  check_absent(b, bar);
  observe_barrier_done(b, static_cast<uint32_t>(&bar - b.barriers), bar);
  const NamedBarrier done = std::move(bar);
  bar = NamedBarrier{};
  for (const Arrival& a : done.arrivals) {
    if (!a.waits) continue;
    write_result(b, a, done);
    release(b.warps[a.warp], a.lanes, kBar);
  }
  b.notify();
}

// imm: aligned, reduction kind, has count, arrive only. ops: [result] barrier [count] [predicate].
Step op_bar(Warp& w, const Instr& i, Mask m) {
  const bool reduces = i.imm[1] != kNone, counted = i.imm[2] != 0, arrives = i.imm[3] != 0;
  const uint32_t first = reduces ? 1 : 0;
  const int lane = w.first_lane(m);
  const uint32_t id = w.r32(i.ops[first])[lane];
  if (id > 15) {
    report(w, i, Kind::barrier, m, "barrier " + std::to_string(id) + " does not exist: a block has 16");
    return Step::fault;
  }
  NamedBarrier& bar = w.block->barriers[id];
  const uint32_t expected = counted ? w.r32(i.ops[first + 1])[lane] : 0;
  if (counted && (expected == 0 || expected % 32)) {
    report(w, i, Kind::barrier, m, "thread count " + std::to_string(expected) + " is not a positive multiple of 32");
    return Step::fault;
  }
  if (!bar.arrivals.empty() && bar.expected != expected)
    report(w, i, Kind::barrier, m,
           "barrier " + std::to_string(id) + " expects " + std::to_string(bar.expected) + " threads at PTX line " +
               std::to_string(bar.arrivals.front().instr->line) + " and " + std::to_string(expected) + " here");
  bar.expected = expected;
  const auto threads = static_cast<uint32_t>(__builtin_popcount(m));
  bar.threads += threads;
  const bool whole = m == (w.exist & ~w.exited);
  if (whole) bar.arrived += 32;
  else bar.divided = true;
  if (reduces) bar.count += static_cast<uint32_t>(__builtin_popcount(w.pred(i.ops[first + 1 + (counted ? 1 : 0)]) & m));
  const bool partial = i.imm[0] && !whole;
  bar.arrivals.push_back({w.index, m, &i, !arrives, whole, partial ? lanes_elsewhere(w, m) : 0});
  observe_barrier_arrive(w, id);
  if (!complete(*w.block, bar)) {
    w.wait_on = {kBar, id, expected};
    return arrives ? Step::next : Step::hold;
  }
  finish(*w.block, bar);
  return Step::yield;  // the last to arrive has no head start
}

bool waits_for_warp(const Path& p) { return p.state == Path::State::held && p.wait.what == kWarpBar; }

// Lanes of the warp that are held at a bar.warp.sync of these members, wherever in the program.
Mask met(const Warp& w, Mask members) {
  Mask here = 0;
  for (const Path& p : w.paths)
    if (waits_for_warp(p) && !(p.wait.where & ~members)) here |= p.mask;
  return here;
}

void let_go(Warp& w, Mask members) {
  for (Path& p : w.paths)
    if (waits_for_warp(p) && !(p.wait.where & ~members)) p.state = Path::State::ready;
  ++w.merges;  // what either side did is ordered before what both do now
}

Step op_bar_warp(Warp& w, const Instr& i, Mask m) {
  const Mask first = w.r32(i.ops[0])[w.first_lane(m)];
  Mask members = first;
  for (Mask left = m; left; left &= left - 1) members |= w.r32(i.ops[0])[__builtin_ctz(left)];
  const Mask want = members & w.exist & ~w.exited;
  if ((m & want) == want) {
    ++w.merges;  // orders the lanes' accesses, also where they run together anyway
    return Step::next;
  }
  if (((m | met(w, members)) & want) == want) {
    let_go(w, members);
    return Step::yield;
  }
  w.wait_on = {kWarpBar, members, m};
  if (members != first) return Step::retry;  // lanes of different member masks, which stand here together
  w.block->notify();
  return Step::hold;
}

}  // namespace

void recheck_warp(Warp& w) {
  for (size_t k = 0; k < w.paths.size(); ++k) {
    const Path& p = w.paths[k];
    if (!waits_for_warp(p)) continue;
    const auto members = static_cast<Mask>(p.wait.where);
    const Mask want = members & w.exist & ~w.exited;
    if ((met(w, members) & want) == want) let_go(w, members);
  }
}

void recheck_barriers(Block& b) {
  for (NamedBarrier& bar : b.barriers)
    if (complete(b, bar)) finish(b, bar);
}

void register_barrier(Registry& r) {
  r.add("bar", op_bar);
  r.add("bar.warp", op_bar_warp);
}

}  // namespace tilewright::vgpu
