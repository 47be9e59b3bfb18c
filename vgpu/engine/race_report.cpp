// Words for a race: what each side did, in which order they ran here.
#include "observe.h"
#include "program.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

constexpr uint32_t kMaxReports = 1000;  // of one instruction in one cluster; their text takes time

const Launch& launch_of(const Probe& p, const Access& a) { return p.w.launch().run->launch_of(a.unit); }

const Instr& instr_of(const Probe& p, const Access& a) { return launch_of(p, a).program->code[a.pc]; }

// Actors behind those of the warps are mbarriers: transfers.
std::string actor_text(const Probe& p, const Access& a) {
  static const char* const kNames[kActors] = {"", "asynchronous ", "asynchronous ", "asynchronous ", "asynchronous "};
  const Launch& l = launch_of(p, a);
  const uint32_t threads = l.block_warps() * l.cluster[0] * l.cluster[1] * l.cluster[2] * kActors;
  return a.actor < threads ? kNames[a.actor % kActors] : "asynchronous ";
}

std::string side(const Probe& p, const Access& a, bool write) {
  const std::string what = a.flags & kAtomic ? "atomic" : write ? "write" : "read";
  return actor_text(p, a) + what + " by " + registry().names()[instr_of(p, a).handler];
}

std::string place(const Probe& p, uint64_t at) { return place_text(*p.w.block, reinterpret_cast<const uint8_t*>(at)); }

// "another device needs .sys"
std::string need_text(Scope needed) {
  static const char* const kWho[] = {"", "another block of the cluster", "another block", "another device"};
  return std::string(kWho[static_cast<size_t>(needed)]) + " needs " + scope_name(needed);
}

// Why strong accesses, or a flag between the two sides, do not order them: a scope that does not reach the other side.
std::string scope_text(const Probe& p, const Access& other, bool other_writes) {
  const Scope needed = needed_scope(p, other);
  if (p.self.flags & other.flags & kStrong) {
    std::string text;
    for (const Access* a : {&p.self, &other}) {
      const auto scope = static_cast<Scope>(a->flags >> kScopeShift);
      if (scope >= needed) continue;
      const bool write = a == &other ? other_writes : p.write;
      text += (text.empty() ? "; scope " : " and ") + std::string(scope_name(scope)) + " of the " + side(p, *a, write);
    }
    return text.empty() ? "" : text + " is too narrow: " + need_text(needed);
  }
  const Narrow* found = nullptr;  // of this warp, else of one that it may have waited for at a barrier
  for (const WarpClocks& c : p.unit.warps) {
    const auto it = c.narrow.find(other.unit);
    if (it != c.narrow.end() && (!found || &c == &p.clocks)) found = &it->second;
  }
  if (!found) return "";
  const Narrow& n = *found;
  return std::string("; a flag was seen in between, but scope ") + scope_name(n.scope) + " of its " +
         (n.by_release ? "release" : "acquire") + " at PTX line " + std::to_string(n.line) + " is too narrow: " +
         need_text(n.needed);
}

Site site(const Probe& p, const Access& a) {
  Site s;
  const Launch& l = launch_of(p, a);
  uint32_t unit = a.unit - l.first_unit, inside = a.warp / l.block_warps();
  for (int d = 0; d < 3; ++d) {
    const uint32_t clusters = l.grid[d] / l.cluster[d];
    s.block[d] = unit % clusters * l.cluster[d] + inside % l.cluster[d];
    unit /= clusters;
    inside /= l.cluster[d];
  }
  s.warp = static_cast<int32_t>(a.warp % l.block_warps());
  s.lane = static_cast<int32_t>(a.lane);
  s.line = instr_of(p, a).line;
  s.launch = l.index;
  return s;
}

}  // namespace

void report_race(Probe& p, const Access& other, bool other_writes, uint64_t at, uint32_t bytes) {
  if (++p.unit.reported[p.self.pc] > kMaxReports) return;
  const std::string text = "race on " + place(p, at) + " (" + std::to_string(bytes) + " bytes): " +
                           side(p, p.self, p.write) + " is not ordered after the " + side(p, other, other_writes) + scope_text(p, other, other_writes);
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
