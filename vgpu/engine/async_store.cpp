// st.async and red.async: a few bytes to a block of the cluster, completing on an mbarrier there.
#include <array>
#include <cstring>

#include "collective.h"
#include "mbarrier.h"
#include "observe.h"
#include "reduction.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

using Bytes = std::array<uint8_t, 16>;

// `land(pointer, bytes)` combines the value with what is there.
template <class Land>
bool send(Warp& w, const Instr& i, int lane, uint32_t target, uint32_t barrier, const Bytes& value, uint32_t size,
          bool reduces, Land land) {
  if (!shared_at(w, i, lane, target, size, size) || !mbarrier_check(w, i, lane, barrier)) return false;
  if (shared_owner(*w.block, target) != shared_owner(*w.block, barrier)) {
    report(w, i, Kind::illegal, 1u << lane, "the target and the mbarrier lie in the shared memory of different blocks");
    return false;
  }
  if (reduces && !shared_ready(*shared_owner(*w.block, target), target & kSharedOffset, size, Proxy::generic))
    report_not_ready(w, i, lane, target, size, Proxy::generic);
  if (w.block->observer) observe_transfer(w, i, lane, target, size, barrier, reduces);
  w.block->submit([block = w.block, instr = &i, target, barrier, value, size, land] {
    land(shared_owner(*block, target)->smem.data() + (target & kSharedOffset), value.data());
    shared_mark(*block, target, size, Proxy::generic);
    mbarrier_add_tx(*block, *instr, barrier, -int64_t{size});
  });
  return true;
}

void take(const Warp& w, int lane, uint32_t op, uint32_t bytes, uint8_t* to) {
  if (bytes == 8) std::memcpy(to, &w.r64(op)[lane], 8);
  else std::memcpy(to, &w.r32(op)[lane], bytes);
}

// ops: target, values, barrier. imm: generic addresses, element bytes, elements, offset and base bytes of the target, of
// the barrier.
Step store(Warp& w, const Instr& i, Mask m) {
  const auto element = static_cast<uint32_t>(i.imm[1]), count = static_cast<uint32_t>(i.imm[2]);
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    uint32_t target, barrier;
    if (!shared_address(w, i, lane, i.ops[0], i.imm[3], i.imm[4], i.imm[0] != 0, target)) return Step::fault;
    if (!shared_address(w, i, lane, i.ops[1 + count], i.imm[5], i.imm[6], i.imm[0] != 0, barrier)) return Step::fault;
    Bytes value{};
    for (uint32_t k = 0; k < count; ++k) take(w, lane, i.ops[1 + k], element, value.data() + k * element);
    const uint32_t size = element * count;
    if (!send(w, i, lane, target, barrier, value, size, false,
              [size](uint8_t* at, const uint8_t* from) { std::memcpy(at, from, size); }))
      return Step::fault;
  }
  return Step::next;
}

// ops: target, value, barrier. imm: generic addresses, operation, type, offset and base bytes of the target, of the
// barrier.
Step reduce(Warp& w, const Instr& i, Mask m) {
  const auto operation = static_cast<Reduction>(i.imm[1]);
  const auto type = static_cast<ReductionType>(i.imm[2]);
  const uint32_t size = reduction_bytes(type);
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    uint32_t target, barrier;
    if (!shared_address(w, i, lane, i.ops[0], i.imm[3], i.imm[4], i.imm[0] != 0, target)) return Step::fault;
    if (!shared_address(w, i, lane, i.ops[2], i.imm[5], i.imm[6], i.imm[0] != 0, barrier)) return Step::fault;
    Bytes value{};
    take(w, lane, i.ops[1], size, value.data());
    if (!send(w, i, lane, target, barrier, value, size, true, [operation, type](uint8_t* at, const uint8_t* from) {
          reduce_into(operation, type, at, from, 1);
        }))
      return Step::fault;
  }
  return Step::next;
}

}  // namespace

void register_async_store(Registry& r) {
  r.add("st.async", store);
  r.add("red.async", reduce);
}

}  // namespace tilewright::vgpu
