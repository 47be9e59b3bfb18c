// The interpreter loop of a warp: paths of (pc, lanes), the lowest pc first, merged when they meet.
#include <algorithm>

#include "frames.h"
#include "interpret.h"
#include "observe.h"

namespace tilewright::vgpu {
namespace {

constexpr uint64_t kMaxLead = 1u << 14;

bool ready(const Warp& w, const Path& p) {
  return p.state == Path::State::ready || (p.state == Path::State::retry && p.event != w.block->event);
}

bool same_frames(const Path& a, const Path& b) {
  if (a.frames.size() != b.frames.size()) return false;
  for (size_t k = 0; k < a.frames.size(); ++k)
    if (a.frames[k].return_pc != b.frames[k].return_pc) return false;
  return true;
}

// Merges paths that stand at the pc of the current one and are not held behind a barrier.
void merge(Warp& w) {
  for (size_t k = 0; k < w.paths.size();) {
    Path& a = w.path();
    Path& b = w.paths[k];
    if (k == w.current || b.pc != a.pc || b.state == Path::State::held || !same_frames(a, b)) {
      ++k;
      continue;
    }
    a.mask |= b.mask;
    for (size_t f = 0; f < a.frames.size(); ++f) a.frames[f].saved = joined(a.frames[f].saved, b.frames[f].saved, b.mask);
    ++w.merges;
    if (k < w.current) --w.current;
    w.paths.erase(w.paths.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

bool choose(Warp& w) {
  if (w.paths.size() == 1) {
    w.current = 0;
    if (!ready(w, w.paths[0])) return false;
    w.paths[0].state = Path::State::ready;
    return true;
  }
  // A path that spins on what a later one of the same warp will do must let it run.
  const bool last = w.lead > kMaxLead;
  if (last) w.lead = 0;
  size_t best = w.paths.size();
  for (size_t k = 0; k < w.paths.size(); ++k)
    if (ready(w, w.paths[k]) && (best == w.paths.size() || (w.paths[k].pc < w.paths[best].pc) != last)) best = k;
  if (best == w.paths.size()) return false;
  w.current = best;
  merge(w);
  w.path().state = Path::State::ready;
  return true;
}

// The pc at which another path waits to be met.
uint32_t meeting_pc(const Warp& w) {
  uint32_t pc = UINT32_MAX;
  for (size_t k = 0; k < w.paths.size(); ++k)
    if (k != w.current && w.paths[k].state != Path::State::held && w.paths[k].pc > w.paths[w.current].pc)
      pc = std::min(pc, w.paths[k].pc);
  return pc;
}

void park(Warp& w, Mask m, Step step) {
  Path& current = w.path();
  Path parked;
  parked.pc = step == Step::hold ? current.pc + 1 : current.pc;
  parked.mask = m;
  parked.state = step == Step::hold ? Path::State::held : Path::State::retry;
  parked.event = w.block->event;
  parked.wait = w.wait_on;
  parked.frames = current.frames;
  if (m == current.mask) {
    current = std::move(parked);
    return;
  }
  current.mask &= ~m;
  ++current.pc;
  w.paths.push_back(std::move(parked));
}

// --- undefined registers --------------------------------------------------------------------------------------
struct Taint {
  Mask sources = 0;
};

Mask* slot_taint(Warp& w, uint32_t op) { return &w.undefined[op / kSlotBytes]; }

Mask operand_taint(Warp& w, const Instr& i, const uint8_t* info, uint32_t k) {
  const auto cls = static_cast<OperandClass>(info[k] & 7);
  if (cls == OperandClass::r32 || cls == OperandClass::r64) return *slot_taint(w, i.ops[k]);
  return cls == OperandClass::pred ? w.undefined_preds[i.ops[k] >> 1] : 0;
}

Taint before(Warp& w, const Program& p, const Instr& i, size_t pc, Mask all, Mask m) {
  Taint t;
  const uint8_t* info = p.op_info.data() + (i.ops - p.ops.data());
  if (p.flags[pc] & kSelects) {
    const Mask first = w.pred(i.ops[3]);
    t.sources = (operand_taint(w, i, info, 1) & first) | (operand_taint(w, i, info, 2) & ~first) |
                operand_taint(w, i, info, 3);
  } else if (p.flags[pc] & kPacks) {
    t.sources = kFull;
    for (uint32_t k = 1; k < i.op_count; ++k) t.sources &= operand_taint(w, i, info, k);
  } else if (p.flags[pc] & kPermutes) {
    t.sources = (operand_taint(w, i, info, 1) & operand_taint(w, i, info, 2)) | operand_taint(w, i, info, 3);
  } else if (!(p.flags[pc] & kReadsUndefined)) {
    for (uint32_t k = 0; k < i.op_count; ++k)
      if ((info[k] >> 3) & kRead) t.sources |= operand_taint(w, i, info, k);
  }
  t.sources &= m;
  if (i.guard >= 0) t.sources |= w.undefined_preds[static_cast<uint32_t>(i.guard) >> 1] & all;
  const bool branch = i.run == op_bra;
  if (t.sources && ((p.flags[pc] & kNeedsDefined) || branch))
    report(w, i, Kind::uninitialized_register, t.sources,
           branch ? "a branch depends on a register that was never written"
                  : "a register that was never written reaches memory or an address");
  return t;
}

void after(Warp& w, const Program& p, const Instr& i, size_t pc, Mask m, Taint t) {
  const uint8_t* info = p.op_info.data() + (i.ops - p.ops.data());
  if (p.flags[pc] & kNeedsDefined) t.sources = 0;
  for (uint32_t k = 0; k < i.op_count; ++k) {
    if (!((info[k] >> 3) & kWrite)) continue;
    const auto cls = static_cast<OperandClass>(info[k] & 7);
    Mask* d = nullptr;
    if (cls == OperandClass::r32 || cls == OperandClass::r64) d = slot_taint(w, i.ops[k]);
    else if (cls == OperandClass::pred && (i.ops[k] >> 1) > 1) d = &w.undefined_preds[i.ops[k] >> 1];
    if (d) *d = (*d & ~m) | t.sources;
  }
}

void count_run(Observer& o, uint32_t pc, Mask m) {
  ++o.tallies[pc].runs;
  o.tallies[pc].lanes += static_cast<uint64_t>(__builtin_popcount(m));
}

template <bool kTracked, bool kCounted>
uint64_t run_path(Warp& w, uint64_t quantum) {
  const Program& program = *w.launch().program;
  const Instr* code = program.code.data();
  uint32_t pc = w.path().pc;
  Mask mask = w.path().mask;
  uint32_t meet = meeting_pc(w);
  uint64_t ran = 0;
  while (ran < quantum && pc < meet) {
    const Instr& i = code[pc];
    const Mask m = i.guard >= 0 ? mask & w.pred(static_cast<uint32_t>(i.guard)) : mask;
    ++ran;
    Taint taint;
    if (kTracked) taint = before(w, program, i, pc, mask, m);
    if (m == 0) {
      if (kCounted) count_run(*w.block->observer, pc, m);
      ++pc;
      continue;
    }
    w.path().pc = pc;
    const Step step = i.run(w, i, m);
    if (kCounted && step != Step::retry) count_run(*w.block->observer, pc, m);
    if (kTracked && (step == Step::next || step == Step::yield)) after(w, program, i, pc, m, taint);
    if (step == Step::next) {
      ++pc;
      continue;
    }
    if (step == Step::fault) {
      w.launch().run->stop = true;
      break;
    }
    if (step == Step::yield) {
      w.yielded = true;
      w.path().pc = pc + 1;
      return ran;
    }
    if (step != Step::jump) {
      park(w, m, step);
      return ran;
    }
    if (w.paths.empty() || w.current >= w.paths.size() || w.paths.size() > 1) return ran;
    if (w.path().state != Path::State::ready) return ran;  // another path was left alone, behind what it waits for
    pc = w.path().pc;
    mask = w.path().mask;
    meet = UINT32_MAX;
  }
  w.path().pc = pc;
  return ran;
}

}  // namespace

bool warp_done(const Warp& w) { return w.paths.empty(); }

namespace {

using RunPath = uint64_t (*)(Warp&, uint64_t);

RunPath runner(const Warp& w) {
  const bool counted = w.block->observer && !w.block->observer->tallies.empty();
  if (w.launch().tracked) return counted ? run_path<true, true> : run_path<true, false>;
  return counted ? run_path<false, true> : run_path<false, false>;
}

}  // namespace

const Instr* step_warp(Warp& w) {
  if (w.paths.empty() || !choose(w)) return nullptr;
  const Instr* i = &w.launch().program->code[w.path().pc];
  w.executed += runner(w)(w, 1);
  return i;
}

bool run_warp(Warp& w, uint64_t quantum) {
  bool any = false;
  const RunPath run = runner(w);
  uint64_t ran = 0;
  w.yielded = false;
  while (!w.paths.empty() && ran < quantum && !w.yielded && !w.launch().run->stop.load(std::memory_order_relaxed)) {
    if (!choose(w)) break;
    any = true;
    const uint64_t now = run(w, quantum - ran);
    w.lead = w.paths.size() > 1 ? w.lead + now : 0;
    ran += now;
  }
  w.executed += ran;
  return any;
}

void release(Warp& w, Mask lanes, const char* what) {
  for (Path& p : w.paths)
    if (p.state == Path::State::held && (p.mask & lanes) && p.wait.what == what) p.state = Path::State::ready;
}

void leave(Warp& w, Mask lanes) {
  Path& p = w.path();
  p.mask &= ~lanes;
  w.exited |= lanes;
  if (p.mask) ++p.pc;
  else w.paths.erase(w.paths.begin() + static_cast<std::ptrdiff_t>(w.current));
  recheck_barriers(*w.block);
  recheck_warp(w);
  if (w.block->cluster.front()->cluster_arrived) recheck_cluster(*w.block);
  w.block->notify();
}

Step op_bra(Warp& w, const Instr& i, Mask m) {
  const uint32_t target = static_cast<uint32_t>(i.imm[0]);
  Path& p = w.path();
  if (m == p.mask) {
    p.pc = target;
    return Step::jump;
  }
  Path taken;
  taken.pc = target;
  taken.mask = m;
  taken.frames = p.frames;
  p.mask &= ~m;
  ++p.pc;
  w.paths.push_back(std::move(taken));
  return Step::jump;
}

}  // namespace tilewright::vgpu
