// cp.async of 4, 8 or 16 bytes a thread, its groups, and its arrival on an mbarrier.
#include <algorithm>
#include <array>
#include <cstring>

#include "collective.h"
#include "mbarrier.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

struct Copy {
  uint32_t target[kLanes];
  const uint8_t* source[kLanes];
  uint8_t bytes[kLanes];  // read from the source; the rest is zero
};

void land_lane(Block& owner, uint32_t offset, const uint8_t* source, uint32_t bytes, uint32_t size) {
  uint8_t* to = owner.smem.data() + offset;
  if (!owner.shadow.empty()) std::memset(owner.shadow.data() + offset, kWritten | kDirty, size);
  if (bytes == 16) {
    std::memcpy(to, source, 16);
    return;
  }
  if (bytes) std::memcpy(to, source, bytes);
  std::memset(to + bytes, 0, size - bytes);
}

void land(Block& block, const Copy& copy, uint32_t size, Mask lanes) {
  for (Mask left = lanes; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const uint32_t target = copy.target[lane];
    land_lane(*shared_owner(block, target), target & kSharedOffset, copy.source[lane], copy.bytes[lane], size);
  }
}

bool prepare_targets(Warp& w, const Instr& i, Mask m, uint32_t size, Copy& copy) {
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    uint32_t& target = copy.target[lane];
    if (!shared_address(w, i, lane, i.ops[0], i.imm[2], i.imm[3], i.imm[0] != 0, target)) return false;
    const bool plain = target % size == 0 && uint64_t{target} + size <= w.block->smem.size();
    if (!plain && !shared_at(w, i, lane, target, size, size)) return false;
  }
  return true;
}

bool prepare_sizes(Warp& w, const Instr& i, Mask m, uint32_t size, Copy& copy) {
  std::memset(copy.bytes, static_cast<int>(size), sizeof copy.bytes);
  if (!i.imm[1]) return true;
  if (i.imm[7]) {  // a predicate: where it holds, nothing is read
    const Mask none = w.pred(i.ops[2]);
    for (Mask left = m & none; left; left &= left - 1) copy.bytes[w.first_lane(left)] = 0;
    return true;
  }
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    const uint32_t bytes = w.r32(i.ops[2])[lane];
    if (bytes > size) {
      report(w, i, Kind::illegal, 1u << lane,
             "cp.async of " + std::to_string(size) + " bytes with a source size of " + std::to_string(bytes));
      return false;
    }
    copy.bytes[lane] = static_cast<uint8_t>(bytes);
  }
  return true;
}

// A source size of zero reads nothing, so that its address may be anything. The hull of all lanes mostly lies in one
// allocation: one look-up; otherwise the lanes are looked up one by one.
bool prepare_sources(Warp& w, const Instr& i, Mask m, uint32_t size, Copy& copy) {
  const uint64_t* base = w.r64(i.ops[1]);
  const auto offset = static_cast<uint64_t>(i.imm[4]);
  uint64_t lo = UINT64_MAX, hi = 0, low_bits = 0;
  for (Mask left = m; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const uint64_t address = base[lane] + offset;
    copy.source[lane] = reinterpret_cast<const uint8_t*>(address);
    if (copy.bytes[lane] == 0) continue;
    lo = std::min(lo, address);
    hi = std::max(hi, address + copy.bytes[lane]);
    low_bits |= address;
  }
  if (hi == 0 || (low_bits % size == 0 && lo < hi && global_find(w.launch(), lo, hi - lo, false))) return true;
  for (Mask left = m; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if (copy.bytes[lane] == 0) continue;
    if (!global_at(w, i, lane, base[lane] + offset, copy.bytes[lane], size, false)) return false;
  }
  return true;
}

// imm: generic target, has source size, offset and base bytes of target, the same of source, size, [the source size is
// a predicate]. ops: target, source, [source size].
bool prepare(Warp& w, const Instr& i, Mask m, Copy& copy) {
  const auto size = static_cast<uint32_t>(i.imm[6]);
  return prepare_targets(w, i, m, size, copy) && prepare_sizes(w, i, m, size, copy) &&
         prepare_sources(w, i, m, size, copy);
}

Step cp_async(Warp& w, const Instr& i, Mask m) {
  Copy copy;
  if (!prepare(w, i, m, copy)) return Step::fault;
  const auto size = static_cast<uint32_t>(i.imm[6]);
  if (w.block->observer) observe_cp_async(w, i, m, copy.target, copy.source, copy.bytes, size);
  if (!w.launch().lazy()) {
    land(*w.block, copy, size, m);
    w.cp_async.add(m, {});
    return Step::next;
  }
  w.cp_async.add(m, [block = w.block, copy, size](Mask lanes) { land(*block, copy, size, lanes); });
  return Step::next;
}

Step commit(Warp& w, const Instr&, Mask m) {
  w.cp_async.commit(m);
  if (w.block->observer) observe_commit(w, Actor::cp_async);
  return Step::next;
}

// imm: groups that may stay in flight.
Step wait_group(Warp& w, const Instr& i, Mask m) {
  w.cp_async.wait(m, static_cast<uint32_t>(i.imm[0]));
  if (w.block->observer) observe_wait(w, Actor::cp_async, static_cast<uint32_t>(i.imm[0]));
  return Step::next;
}

Step wait_all(Warp& w, const Instr&, Mask m) {
  w.cp_async.wait_all(m);
  if (w.block->observer) observe_wait_all(w, Actor::cp_async);
  return Step::next;
}

// imm: generic, noinc, offset, base bytes. ops: barrier. The arrival happens when the thread's earlier copies have
// landed; without .noinc it was counted in advance.
Step arrive(Warp& w, const Instr& i, Mask m) {
  std::array<uint32_t, kLanes> barriers{};
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    if (!shared_address(w, i, lane, i.ops[0], i.imm[2], i.imm[3], i.imm[0] != 0, barriers[lane])) return Step::fault;
    if (!mbarrier_check(w, i, lane, barriers[lane])) return Step::fault;
    if (w.block->observer) {
      observe_mbarrier_use(w, i, lane, barriers[lane]);
      observe_copies_arrive(w, barriers[lane]);
    }
    if (!i.imm[1]) mbarrier_announce(*w.block, i, barriers[lane]);
  }
  w.block->submit([warp = &w, instr = &i, barriers, m] {
    warp->cp_async.wait_all(m);
    uint32_t finished = ~0u;
    for (Mask left = m; left; left &= left - 1) {
      const uint32_t barrier = barriers[__builtin_ctz(left)];
      if (barrier == finished) mbarrier_split_arrival(*warp->block, *instr, barrier);
      if (mbarrier_arrive(*warp->block, *instr, barrier, 1)) finished = barrier;
    }
  });
  return Step::next;
}

}  // namespace

void register_cp_async(Registry& r) {
  r.add("cp.async", cp_async);
  r.add("cp.async.commit_group", commit);
  r.add("cp.async.wait_group", wait_group);
  r.add("cp.async.wait_all", wait_all);
  r.add("cp.async.mbarrier.arrive", arrive);
}

}  // namespace tilewright::vgpu
