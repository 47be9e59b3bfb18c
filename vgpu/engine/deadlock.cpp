// The report of a deadlock: who waits for what, and which arrival is missing.
#include <algorithm>
#include <cstring>

#include "interpret.h"
#include "mbarrier.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

constexpr size_t kMaxGroups = 5, kMaxNames = 6;

const Instr& instr_of(const Block& b, const Path& p) {
  if (p.wait.what == kSpin && p.wait.detail) return *reinterpret_cast<const Instr*>(p.wait.detail);
  return b.launch->program->code[p.state == Path::State::held ? p.pc - 1 : p.pc];
}

// Warps that wait alike.
struct Waiters {
  const Instr* instr;
  Wait wait;
  std::vector<const Warp*> warps;
  std::vector<Mask> lanes;
};

std::vector<Waiters> group(const Block& b) {
  std::vector<Waiters> out;
  for (const Warp& w : b.warps)
    for (const Path& p : w.paths) {
      const Instr* i = &instr_of(b, p);
      auto it = std::find_if(out.begin(), out.end(), [&](const Waiters& g) {
        return g.instr == i && g.wait.where == p.wait.where && g.wait.what == p.wait.what;
      });
      if (it == out.end()) it = out.insert(out.end(), {i, p.wait, {}, {}});
      it->warps.push_back(&w);
      it->lanes.push_back(p.mask);
    }
  return out;
}

// "warps 0-3, 6"
std::string range_text(std::vector<uint32_t> list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  std::string text = list.size() == 1 ? "warp " : "warps ";
  for (size_t k = 0; k < list.size(); ++k) {
    size_t last = k;
    while (last + 1 < list.size() && list[last + 1] == list[last] + 1) ++last;
    text += (k ? ", " : "") + std::to_string(list[k]);
    if (last > k) text += "-" + std::to_string(list[last]);
    k = last;
  }
  return text;
}

std::string whereabouts(const Block& b, const Warp& w) {
  if (w.paths.empty()) return "has left the kernel";
  const Path& p = w.paths.front();
  const std::string line = std::to_string(instr_of(b, p).line);
  if (!*p.wait.what) return "is at PTX line " + line;
  if (p.wait.what == kSpin) return "waits at PTX line " + line + " for memory";
  return "waits at PTX line " + line + " for " + p.wait.what + " " + hex(p.wait.where);
}

std::string spin_text(const Block& b, const Waiters& g) {
  const std::string line = std::to_string(g.instr->line);
  if (!g.wait.where) return " in a loop at PTX line " + line + " that reads no memory and never ends";
  const auto* at = reinterpret_cast<const uint8_t*>(g.wait.where);
  uint32_t value = 0;
  std::memcpy(&value, at, reinterpret_cast<uint64_t>(at) % 4 ? 1 : 4);
  return " at PTX line " + line + " for a write to " + place_text(b, at) + ", which holds " + std::to_string(value);
}

std::string missing_warps(const Block& b, const NamedBarrier& bar) {
  std::string text;
  size_t named = 0;
  for (const Warp& w : b.warps) {
    Mask here = 0;
    for (const Arrival& a : bar.arrivals)
      if (a.warp == w.index) here |= a.lanes;
    const Mask absent = w.exist & ~here & ~(bar.expected ? 0 : w.exited);
    if (!absent) continue;
    if (++named > kMaxNames) return text + ", ...";
    text += (named > 1 ? ", " : "") + std::string("warp ") + std::to_string(w.index);
    if (here) text += " lanes " + hex(absent);
    text += " (" + whereabouts(b, w) + ")";
  }
  return text;
}

std::string barrier_text(const Block& b, uint64_t id) {
  const NamedBarrier& bar = b.barriers[id];
  return "bar.sync " + std::to_string(id) + " (" + std::to_string(bar.threads) + " of " +
         (bar.expected ? std::to_string(bar.expected) : "all live") + " threads arrived), missing: " +
         missing_warps(b, bar);
}

std::string arrival_text(const Block& owner, const MBarrierLog& log) {
  std::string now, late;
  size_t named = 0;
  for (const MBarrierArrival& a : log.arrivals) {
    if (++named > 2 * kMaxNames) break;
    const Block& from = *owner.cluster[a.rank];
    const std::string who = (&from == &owner ? "" : "block rank " + std::to_string(a.rank) + " ") + "warp " +
                            std::to_string(a.warp);
    if (a.phase == log.phase) {
      now += (now.empty() ? "" : ", ") + who + " (" + std::to_string(a.arrivals) + ")";
    } else {
      late += (late.empty() ? "" : ", ") + who + " (last at PTX line " + std::to_string(a.instr->line) + " for phase " +
              std::to_string(a.phase) + ", " + whereabouts(from, from.warps[a.warp]) + ")";
    }
  }
  if (now.empty() && late.empty()) return "no warp ever arrived on it";
  return "phase " + std::to_string(log.phase) + ": arrived " + (now.empty() ? "nobody" : now) +
         (late.empty() ? "" : "; arrived before but not in this phase: " + late);
}

std::string mbarrier_text(Block& b, const Wait& wait) {
  const auto address = static_cast<uint32_t>(wait.where);
  Block& owner = *shared_owner(b, address);
  const uint32_t offset = address & kSharedOffset;
  const MBarrierLog& log = owner.mbarrier_logs[offset];
  const std::string bytes = log.announcer && log.announced != log.transferred
                                ? "; " + std::to_string(log.announced) + " bytes announced, at last at PTX line " +
                                      std::to_string(log.announcer->line) + ", and " +
                                      std::to_string(log.transferred) + " transferred"
                                : "";
  return "mbarrier at shared " + hex(wait.where) + " parity " + std::to_string(wait.detail & 1) + " (" +
         mbarrier_state(owner, offset) + "; " + arrival_text(owner, log) + bytes + ")";
}

std::string describe(Block& b, const Waiters& g) {
  std::vector<uint32_t> warps;
  Mask lanes = 0;
  bool alike = true;
  for (size_t k = 0; k < g.warps.size(); ++k) {
    warps.push_back(g.warps[k]->index);
    alike = alike && g.lanes[k] == g.lanes[0];
    lanes |= g.lanes[k];
  }
  std::string text = range_text(warps);
  if (!alike || lanes != kFull) text += " lanes " + hex(lanes);
  text += g.warps.size() == 1 ? " waits" : " wait";
  if (g.wait.what == kSpin) return text + spin_text(b, g);
  text += " at PTX line " + std::to_string(g.instr->line) +
          " for ";
  const std::string what = g.wait.what;
  if (what == "mbarrier") return text + mbarrier_text(b, g.wait);
  if (what == "bar.sync") return text + barrier_text(b, g.wait.where);
  if (what == "barrier.cluster.wait")
    return text + what + " (" + std::to_string(g.wait.where) + " of " + std::to_string(g.wait.detail) +
           " threads of the cluster arrived)";
  return text + what + " " + hex(g.wait.where);
}

}  // namespace

std::string waiting_text(Block& b) {
  const std::vector<Waiters> groups = group(b);
  std::string text;
  for (size_t k = 0; k < std::min(groups.size(), kMaxGroups); ++k)
    text += (k ? "; " : "") + describe(b, groups[k]);
  if (groups.size() > kMaxGroups) text += "; and " + std::to_string(groups.size() - kMaxGroups) + " more";
  return text;
}

Site wait_cause(Block& b) {
  for (const Warp& w : b.warps)
    for (const Path& p : w.paths) {
      if (std::strcmp(p.wait.what, "mbarrier") != 0) continue;
      const auto address = static_cast<uint32_t>(p.wait.where);
      const Block& owner = *shared_owner(b, address);
      const auto it = owner.mbarrier_logs.find(address & kSharedOffset);
      if (it != owner.mbarrier_logs.end() && it->second.announced != it->second.transferred)
        return announcement(owner, address & kSharedOffset);
    }
  return {};
}

Site first_wait(const Block& b) {
  Site s;
  for (const Warp& w : b.warps) {
    if (w.paths.empty()) continue;
    s.block[0] = b.x;
    s.block[1] = b.y;
    s.block[2] = b.z;
    s.warp = static_cast<int32_t>(w.index);
    s.lane = w.first_lane(w.paths.front().mask);
    s.line = instr_of(b, w.paths.front()).line;
    s.launch = b.launch->index;
    break;
  }
  return s;
}

}  // namespace tilewright::vgpu
