// Checked access to global and shared memory.
#include <algorithm>
#include <cstring>

#include "launch.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

const Range* range_of(const Launch& launch, uint64_t address) {
  const auto& r = launch.ranges;
  auto it = std::upper_bound(r.begin(), r.end(), address, [](uint64_t a, const Range& b) { return a < b.lo; });
  return it == r.begin() ? nullptr : &*(it - 1);
}

// Where an illegal address lies, seen from the nearest allocation.
std::string nearest(const Launch& launch, uint64_t address) {
  const Range* best = nullptr;
  uint64_t distance = UINT64_MAX;
  for (const Range& r : launch.ranges) {
    const uint64_t d = address < r.lo ? r.lo - address : address >= r.hi ? address - r.hi + 1 : 0;
    if (d < distance) {
      distance = d;
      best = &r;
    }
  }
  if (!best) return "the launch has no global memory";
  const std::string size = best->name + " (" + std::to_string(best->hi - best->lo) + " bytes)";
  if (address < best->lo) return std::to_string(best->lo - address) + " bytes before " + size;
  if (address >= best->hi) return std::to_string(address - best->hi) + " bytes behind the end of " + size;
  return "at byte " + std::to_string(address - best->lo) + " of " + size;
}

bool aligned(Warp& w, const Instr& i, int lane, uint64_t address, uint32_t align, const char* space) {
  if (align < 2 || address % align == 0) return true;
  report(w, i, Kind::misaligned, 1u << lane,
         std::string(space) + " address " + hex(address) + " is not a multiple of " + std::to_string(align));
  return false;
}

// Whether every thread of the block has left the kernel.
bool gone(const Block& b) {
  for (const Warp& w : b.warps)
    if (!w.paths.empty()) return false;
  return true;
}

}  // namespace

// Memory that has the name of an argument needs no other one.
void join_names(std::string& name, const std::string& other) {
  const auto plain = [](const std::string& n) { return n.rfind("memory ", 0) == 0; };
  if (plain(name) && !plain(other)) name = other;
  else if (plain(other) == plain(name) && name.find(other) == std::string::npos) name += ", " + other;
}

void sort_ranges(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.lo < b.lo; });
  std::vector<Range> out;
  for (Range& r : ranges) {
    if (r.hi <= r.lo) continue;
    if (!out.empty() && r.lo < out.back().hi) {
      out.back().hi = std::max(out.back().hi, r.hi);
      out.back().writable &= r.writable;
      join_names(out.back().name, r.name);
    } else {
      out.push_back(std::move(r));
    }
  }
  ranges = std::move(out);
}

uint8_t* global_find(Launch& launch, uint64_t address, uint64_t bytes, bool write) {
  if (!launch.run->checked) return reinterpret_cast<uint8_t*>(address);
  const Range* r = range_of(launch, address);
  if (!r || address + bytes > r->hi || address + bytes < address || (write && !r->writable)) return nullptr;
  return reinterpret_cast<uint8_t*>(address);
}

uint8_t* global_at(Warp& w, const Instr& i, int lane, uint64_t address, uint32_t bytes, uint32_t align, bool write) {
  if (w.launch().run->checked && !aligned(w, i, lane, address, align, "global")) return nullptr;
  if (uint8_t* p = global_find(w.launch(), address, bytes, write)) return p;
  report(w, i, Kind::out_of_bounds, 1u << lane,
         std::string(write ? "write" : "read") + " of " + std::to_string(bytes) + " bytes at global address " +
             hex(address) + ": " + nearest(w.launch(), address));
  return nullptr;
}

Block* shared_owner(Block& b, uint32_t address) {
  const uint32_t rank = address >> 24;
  if (rank == 0) return &b;
  return rank <= b.cluster.size() ? b.cluster[rank - 1] : nullptr;
}

uint8_t* shared_at(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes, uint32_t align) {
  if (!aligned(w, i, lane, address, align, "shared")) return nullptr;
  Block* owner = shared_owner(*w.block, address);
  const uint32_t offset = address & kSharedOffset;
  if (owner && offset + bytes <= owner->smem.size() && (owner == w.block || !gone(*owner)))
    return owner->smem.data() + offset;
  if (owner && owner != w.block && gone(*owner)) {
    report(w, i, Kind::illegal, 1u << lane,
           "access to the shared memory of block rank " + std::to_string(owner->rank) + ", which has left the kernel");
    return nullptr;
  }
  report(w, i, Kind::out_of_bounds, 1u << lane,
         "access of " + std::to_string(bytes) + " bytes at shared address " + hex(address) + ": the block has " +
             std::to_string(w.block->smem.size()) + " bytes");
  return nullptr;
}

bool shared_ready(const Block& b, uint32_t offset, uint32_t bytes, Proxy proxy) {
  if (b.shadow.empty()) return true;
  const uint8_t* s = b.shadow.data() + offset;
  const uint64_t want = 0x0101010101010101ull;
  const uint64_t mask = proxy == Proxy::async ? 0x0303030303030303ull : want;
  uint32_t k = 0;
  for (; k + 8 <= bytes; k += 8) {
    uint64_t v;
    std::memcpy(&v, s + k, 8);
    if ((v & mask) != want) return false;
  }
  for (; k < bytes; ++k)
    if ((s[k] & static_cast<uint8_t>(mask)) != kWritten) return false;
  return true;
}

void report_not_ready(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes, Proxy proxy) {
  const Block* owner = shared_owner(*w.block, address);
  const uint32_t offset = address & kSharedOffset;
  if (!owner) return;
  for (uint32_t k = 0; k < bytes; ++k)
    if (!(owner->shadow[offset + k] & kWritten)) {
      report(w, i, Kind::uninitialized_shared, 1u << lane,
             "read of shared address " + hex(address + k) + ", which nothing has written");
      return;
    }
  if (proxy == Proxy::async)
    report(w, i, Kind::proxy_fence, 1u << lane,
           "the async proxy reads shared address " + hex(address) +
               ", written by ordinary stores with no fence.proxy.async in between");
}

const uint8_t* shared_read(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes, uint32_t align,
                           Proxy proxy) {
  const uint8_t* p = shared_at(w, i, lane, address, bytes, align);
  if (p && !shared_ready(*shared_owner(*w.block, address), address & kSharedOffset, bytes, proxy))
    report_not_ready(w, i, lane, address, bytes, proxy);
  return p;
}

void shared_mark(Block& b, uint32_t address, uint32_t bytes, Proxy proxy) {
  Block* owner = shared_owner(b, address);
  if (owner && !owner->shadow.empty())
    std::memset(owner->shadow.data() + (address & kSharedOffset),
                proxy == Proxy::generic ? kWritten | kDirty : kWritten, bytes);
}

uint8_t* shared_write(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes, uint32_t align,
                      Proxy proxy) {
  uint8_t* p = shared_at(w, i, lane, address, bytes, align);
  if (p) shared_mark(*w.block, address, bytes, proxy);
  return p;
}

void Block::submit(std::function<void()> land) {
  if (launch->lazy()) in_flight.push_back(std::move(land));
  else land();
}

}  // namespace tilewright::vgpu
