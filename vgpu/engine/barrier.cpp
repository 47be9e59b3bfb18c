// bar / barrier: named barriers 0-15 of a block (sync, arrive, red) and barrier.cluster.
#include "interpret.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

const char* const kBar = "bar.sync";

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

bool complete(const Block& b, const NamedBarrier& bar) {
  if (bar.arrivals.empty()) return false;
  return bar.expected ? bar.arrived >= bar.expected : bar.threads >= live_threads(b);
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
  bar.arrived += m == (w.exist & ~w.exited) ? 32 : threads;
  if (reduces) bar.count += static_cast<uint32_t>(__builtin_popcount(w.pred(i.ops[first + 1 + (counted ? 1 : 0)]) & m));
  const bool partial = i.imm[0] && m != (w.exist & ~w.exited);
  bar.arrivals.push_back({w.index, m, &i, !arrives, partial ? lanes_elsewhere(w, m) : 0});
  observe_barrier_arrive(w, id);
  if (!complete(*w.block, bar)) {
    w.wait_on = {kBar, id, expected};
    return arrives ? Step::next : Step::hold;
  }
  finish(*w.block, bar);
  return Step::yield;  // the last to arrive has no head start
}

Step op_bar_warp(Warp& w, const Instr& i, Mask m) {
  Mask want = 0;  // lanes with different member masks may stand here together
  for (Mask left = m; left; left &= left - 1) want |= w.r32(i.ops[0])[__builtin_ctz(left)];
  want &= w.exist & ~w.exited;
  if ((m & want) == want) return Step::next;
  w.wait_on = {"bar.warp.sync", want, m};
  return Step::retry;
}

}  // namespace

void recheck_barriers(Block& b) {
  for (NamedBarrier& bar : b.barriers)
    if (!bar.expected && complete(b, bar)) finish(b, bar);
}

void register_barrier(Registry& r) {
  r.add("bar", op_bar);
  r.add("bar.warp", op_bar_warp);
}

}  // namespace tilewright::vgpu
