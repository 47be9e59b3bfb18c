// cvt.pack: two s32, saturated, side by side under the low bits of a third operand.
#include <algorithm>

#include "lanes.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

// imm: bits of an element, lowest and highest value. ops: d, a, b and, below 16 bits, c.
Step pack(Warp& w, const Instr& i, Mask m) {
  uint32_t* d = w.r32(i.ops[0]);
  const uint32_t *a = w.r32(i.ops[1]), *b = w.r32(i.ops[2]);
  const uint32_t* c = i.op_count > 3 ? w.r32(i.ops[3]) : nullptr;
  const int bits = static_cast<int>(i.imm[0]);
  const uint32_t ones = (1u << bits) - 1;
  const auto element = [&](uint32_t x) {
    return static_cast<uint32_t>(std::clamp<int64_t>(static_cast<int32_t>(x), i.imm[1], i.imm[2])) & ones;
  };
  each_lane(m, [&](int l) {
    const uint32_t pair = element(a[l]) << bits | element(b[l]);
    d[l] = c ? c[l] << (2 * bits) | pair : pair;
  });
  return Step::next;
}

}  // namespace

void register_pack(Registry& r) { r.add("cvt.pack", pack); }

}  // namespace tilewright::vgpu
