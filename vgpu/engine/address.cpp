#include "address.h"

#include <algorithm>

namespace tilewright::vgpu {
namespace {

uint8_t* local_at(Warp& w, const Instr& i, int lane, uint64_t address, uint32_t bytes) {
  const uint64_t size = w.launch().local_bytes;
  if (address % bytes) {
    report(w, i, Kind::misaligned, 1u << lane, "local address " + hex(address) + " is not a multiple of " + std::to_string(bytes));
    return nullptr;
  }
  if (bytes <= size && address <= size - bytes) return w.local.data() + static_cast<uint64_t>(lane) * size + address;
  report(w, i, Kind::out_of_bounds, 1u << lane,
         "access of " + std::to_string(bytes) + " bytes at local address " + hex(address) + ": a thread has " +
             std::to_string(size) + " bytes");
  return nullptr;
}

uint8_t* param_at(Warp& w, const Instr& i, int lane, uint64_t address, uint32_t bytes, bool write) {
  std::vector<uint8_t>& p = w.launch().params;
  if (!write && bytes <= p.size() && address <= p.size() - bytes) return p.data() + address;
  report(w, i, Kind::out_of_bounds, 1u << lane,
         std::string(write ? "write" : "read") + " of " + std::to_string(bytes) + " bytes at parameter address " +
             hex(address) + ": the kernel has " + std::to_string(p.size()) + " bytes of parameters");
  return nullptr;
}

uint8_t* shared_for(Warp& w, const Instr& i, int lane, uint64_t address, uint32_t bytes, bool write) {
  const auto a = static_cast<uint32_t>(address);
  if (write) return shared_write(w, i, lane, a, bytes, bytes);
  return const_cast<uint8_t*>(shared_read(w, i, lane, a, bytes, bytes));
}

uint8_t* one(Warp& w, const Instr& i, int lane, Space space, uint64_t address, uint32_t bytes, bool write) {
  if (space == Space::generic) {
    switch (window_of(address)) {
      case Window::shared: space = Space::shared; break;
      case Window::local: space = Space::local; break;
      case Window::param: space = Space::param; break;
      default: space = Space::global;
    }
    if (space != Space::global) address &= 0xffffffffu;
  }
  switch (space) {
    case Space::shared: return shared_for(w, i, lane, address, bytes, write);
    case Space::local: return local_at(w, i, lane, address, bytes);
    case Space::param: return param_at(w, i, lane, address, bytes, write);
    default: return global_at(w, i, lane, address, bytes, bytes, write);
  }
}

// All lanes in one range, aligned: the common case of global memory.
bool global_fast(const Launch& launch, Mask m, const uint64_t* address, uint32_t bytes, bool write, Pointers& out) {
  const uint64_t first = address[__builtin_ctz(m)];
  const auto& ranges = launch.ranges;
  auto it = std::upper_bound(ranges.begin(), ranges.end(), first, [](uint64_t a, const Range& b) { return a < b.lo; });
  if (it == ranges.begin()) return false;
  const Range& r = *(it - 1);
  if ((write && !r.writable) || r.hi - r.lo < bytes) return false;
  const uint64_t span = r.hi - r.lo - bytes;
  bool good = true;
  for (int l = 0; l < kLanes; ++l) {
    const bool active = (m >> l) & 1;
    good &= !active || (address[l] - r.lo <= span && address[l] % bytes == 0);
    out.at[l] = reinterpret_cast<uint8_t*>(address[l]);
  }
  return good;
}

// All lanes in own shared memory, aligned, and for a read every byte written.
bool shared_fast(Block& b, Mask m, const uint64_t* address, uint32_t bytes, bool write, Pointers& out) {
  if (b.smem.size() < bytes) return false;
  const uint64_t span = b.smem.size() - bytes;
  bool good = true;
  for (int l = 0; l < kLanes; ++l) {
    const bool active = (m >> l) & 1;
    const uint32_t a = static_cast<uint32_t>(address[l]);
    good &= !active || (a <= span && a % bytes == 0);
    out.at[l] = b.smem.data() + a;
  }
  if (!good) return false;
  for (; m; m &= m - 1) {
    const auto a = static_cast<uint32_t>(address[__builtin_ctz(m)]);
    if (write) shared_mark(b, a, bytes, Proxy::generic);
    else if (!shared_ready(b, a, bytes, Proxy::generic)) return false;
  }
  return true;
}

// Where the addresses lead, whatever they are.
bool unchecked(Warp& w, Mask m, Space space, const uint64_t* address, Pointers& out) {
  if (space != Space::global && space != Space::shared) return false;
  for (; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    if (space == Space::global) {
      out.at[l] = reinterpret_cast<uint8_t*>(address[l]);
      continue;
    }
    const auto a = static_cast<uint32_t>(address[l]);
    Block* owner = shared_owner(*w.block, a);
    if (!owner) return false;
    out.at[l] = owner->smem.data() + (a & kSharedOffset);
  }
  return true;
}

}  // namespace

bool locate(Warp& w, const Instr& i, Mask m, Space space, const uint64_t* address, uint32_t bytes, bool write,
            Pointers& out) {
  if (!w.launch().run->checked && unchecked(w, m, space, address, out)) return true;
  if (space == Space::global && global_fast(w.launch(), m, address, bytes, write, out)) return true;
  if (space == Space::generic && window_of(address[__builtin_ctz(m)]) == Window::global &&
      global_fast(w.launch(), m, address, bytes, write, out))
    return true;
  if (space == Space::shared && shared_fast(*w.block, m, address, bytes, write, out)) return true;
  for (; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    out.at[l] = one(w, i, l, space, address[l], bytes, write);
    if (!out.at[l]) return false;
  }
  return true;
}

}  // namespace tilewright::vgpu
