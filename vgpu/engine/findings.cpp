#include <cstdio>

#include "launch.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

constexpr size_t kMaxFindings = 64;

void record(Launch& launch, Kind kind, uint32_t line, Finding finding) {
  const std::lock_guard<std::mutex> lock(launch.mutex);
  const auto key = std::make_pair(static_cast<int>(kind), line);
  const auto found = launch.seen.find(key);
  if (found != launch.seen.end()) {
    ++launch.findings[found->second].count;
    return;
  }
  if (launch.findings.size() >= kMaxFindings) return;
  launch.seen[key] = launch.findings.size();
  launch.findings.push_back(std::move(finding));
}

}  // namespace

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
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
