// Words for a race: what each side did, in which order they ran here.
#include "observe.h"
#include "program.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

constexpr uint32_t kMaxReports = 1000;  // of one instruction in one cluster; their text takes time

const Instr& instr_of(const Probe& p, const Access& a) { return p.w.launch().program->code[a.pc]; }

// Actors behind those of the warps are mbarriers: transfers.
std::string actor_text(const Probe& p, const Access& a) {
  static const char* const kNames[kActors] = {"", "asynchronous ", "asynchronous ", "asynchronous ", "asynchronous "};
  const uint32_t threads = p.unit.block_warps * static_cast<uint32_t>(p.unit.shared.size()) * kActors;
  return a.actor < threads ? kNames[a.actor % kActors] : "asynchronous ";
}

std::string side(const Probe& p, const Access& a, bool write) {
  const std::string what = a.flags & kAtomic ? "atomic" : write ? "write" : "read";
  return actor_text(p, a) + what + " by " + registry().names()[instr_of(p, a).handler];
}

const Block* owner_of(const Probe& p, uint64_t at) {
  for (const Block* b : p.w.block->cluster) {
    const auto start = reinterpret_cast<uint64_t>(b->smem.data());
    if (at >= start && at < start + b->smem.size()) return b;
  }
  return nullptr;
}

std::string place(const Probe& p, uint64_t at) {
  const Block* owner = owner_of(p, at);
  if (!owner) {
    for (const Range& r : p.w.launch().ranges)
      if (at >= r.lo && at < r.hi) return "byte " + std::to_string(at - r.lo) + " of " + r.name;
    return "global " + hex(at);
  }
  const std::string text = "shared " + hex(at - reinterpret_cast<uint64_t>(owner->smem.data()));
  return owner == p.w.block ? text : text + " of block rank " + std::to_string(owner->rank);
}

Site site(const Probe& p, const Access& a) {
  Site s;
  const Launch& l = p.w.launch();
  const uint32_t rank = a.warp / p.unit.block_warps;
  uint32_t unit = a.unit, inside = rank;
  for (int d = 0; d < 3; ++d) {
    const uint32_t clusters = l.grid[d] / l.cluster[d];
    s.block[d] = unit % clusters * l.cluster[d] + inside % l.cluster[d];
    unit /= clusters;
    inside /= l.cluster[d];
  }
  s.warp = static_cast<int32_t>(a.warp % p.unit.block_warps);
  s.lane = static_cast<int32_t>(a.lane);
  s.line = instr_of(p, a).line;
  return s;
}

}  // namespace

void report_race(Probe& p, const Access& other, bool other_writes, uint64_t at, uint32_t bytes) {
  if (++p.unit.reported[p.self.pc] > kMaxReports) return;
  const std::string text = "race on " + place(p, at) + " (" + std::to_string(bytes) + " bytes): " +
                           side(p, p.self, p.write) + " is not ordered after the " + side(p, other, other_writes);
  report_pair(p.w, p.i, Kind::race, 1u << p.self.lane, text, site(p, other));
}

void report_outlived(Probe& p, const Access& other, bool other_writes, uint64_t at) {
  if (++p.unit.reported[p.self.pc] > kMaxReports) return;
  report_pair(p.w, p.i, Kind::race, 1u << p.self.lane,
              "race on " + place(p, at) + ": the last threads of the block leave the kernel, and their shared memory ends, "
                  "with nothing that orders this behind the " + side(p, other, other_writes),
              site(p, other));
}

void report_unfenced(Probe& p, const Access& other, uint64_t at) {
  if (++p.unit.reported[p.self.pc] > kMaxReports) return;
  report_pair(p.w, p.i, Kind::proxy_fence, 1u << p.self.lane,
              "the async proxy reads " + place(p, at) + ", the " + side(p, other, true) +
                  " before it has no fence.proxy.async behind it",
              site(p, other));
}

}  // namespace tilewright::vgpu
