#include <algorithm>
#include <cstdio>

#include "launch.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

constexpr size_t kMaxFindings = 64;

void record(const Launch& launch, Kind kind, uint32_t line, Finding finding) {
  Run& run = *launch.run;
  finding.launch = launch.index;
  const std::lock_guard<std::mutex> lock(run.mutex);
  const auto key = std::make_tuple(static_cast<int>(kind), launch.program, line);
  const auto found = run.seen.find(key);
  if (found != run.seen.end()) {
    Finding& known = run.findings[found->second];
    finding.count = known.count + 1;
    if (known.other.line == 0 && finding.other.line) known = std::move(finding);  // it says more
    else known.count = finding.count;
    return;
  }
  if (run.findings.size() >= kMaxFindings) return;
  run.seen[key] = run.findings.size();
  run.findings.push_back(std::move(finding));
}

}  // namespace

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string place_text(const Block& b, const uint8_t* at) {
  for (const Block* owner : b.cluster) {
    const uint8_t* start = owner->smem.data();
    if (at < start || at >= start + owner->smem.size()) continue;
    const std::string text = "shared " + hex(static_cast<uint64_t>(at - start));
    return owner == &b ? text : text + " of block rank " + std::to_string(owner->rank);
  }
  const auto address = reinterpret_cast<uint64_t>(at);
  for (const Range& r : b.launch->ranges)
    if (address >= r.lo && address < r.hi) return "byte " + std::to_string(address - r.lo) + " of " + r.name;
  return "global " + hex(address);
}

void report(Warp& w, const Instr& i, Kind kind, Mask lanes, const std::string& message) {
  report_pair(w, i, kind, lanes, message, {});
}

void report_pair(Warp& w, const Instr& i, Kind kind, Mask lanes, const std::string& message, const Site& other) {
  Finding f{};
  f.kind = kind;
  f.message = message;
  f.block[0] = w.block->x;
  f.block[1] = w.block->y;
  f.block[2] = w.block->z;
  f.other = other;
  f.warp = static_cast<int32_t>(w.index);
  f.lane = lanes ? w.first_lane(lanes) : -1;
  f.line = i.line;
  record(w.launch(), kind, i.line, std::move(f));
}

void report_wait(Block& b, const Site& site, Kind kind, const std::string& message, const Site& other) {
  Finding f{};
  f.kind = kind;
  f.message = message;
  std::copy_n(site.block, 3, f.block);
  f.warp = site.warp;
  f.lane = site.lane;
  f.line = site.line;
  f.other = other;
  record(*b.launch, kind, f.line, std::move(f));
}

void report_block(Block& b, const Instr* i, Kind kind, const std::string& message) {
  Finding f{};
  f.kind = kind;
  f.message = message;
  f.block[0] = b.x;
  f.block[1] = b.y;
  f.block[2] = b.z;
  f.line = i ? i->line : 0;
  record(*b.launch, kind, f.line, std::move(f));
}

}  // namespace tilewright::vgpu
