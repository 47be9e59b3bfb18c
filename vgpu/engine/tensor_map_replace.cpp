// tensormap.replace: one field of a tensor map in memory; tensormap.cp_fenceproxy: its copy to global memory.
#include "address.h"
#include "collective.h"
#include "observe.h"
#include "registry.h"
#include "tensor_map.h"

namespace tilewright::vgpu {
namespace {

constexpr uint32_t kBytes = sizeof(TensorMapImage);
constexpr uint32_t kPiece = 16;  // of an access, as the checks count them

enum class Field : uint8_t {
  global_address, rank, box_dim, global_dim, global_stride, element_stride, elemtype, interleave, swizzle, fill
};

struct ElementType {
  uint8_t number;  // CUtensorMapDataType
  uint8_t bytes;
};
// By the number of the PTX ISA: u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz.
constexpr ElementType kTypes[] = {{0, 1}, {1, 2}, {2, 4}, {3, 4}, {4, 8}, {5, 8}, {6, 2},
                                  {7, 4}, {10, 4}, {8, 8}, {9, 2}, {11, 4}, {12, 4}};

// Whether the field takes the value; a map that is no longer sound is found where it is used.
bool replace(TensorMapImage& map, Field field, uint64_t ordinal, uint64_t value) {
  switch (field) {
    case Field::global_address: map.base = value; return true;
    case Field::rank: map.rank = static_cast<uint8_t>(value + 1); return value < kMaxRank;  // counts from zero
    case Field::box_dim: map.box[ordinal] = static_cast<uint16_t>(value); return value >= 1 && value <= 256;
    case Field::global_dim: map.dims[ordinal] = value ? value : uint64_t{1} << 32; return true;
    case Field::global_stride:
      if (ordinal + 1 < kMaxRank) map.strides[ordinal + 1] = value;
      return ordinal + 1 < kMaxRank && value % 16 == 0;
    case Field::element_stride:
      map.element_strides[ordinal] = static_cast<uint8_t>(value);
      return value >= 1 && value <= 8;
    case Field::elemtype:
      map.type = kTypes[value].number;
      map.strides[0] = kTypes[value].bytes;
      return true;
    case Field::interleave: return value == 0;
    case Field::swizzle: map.swizzle = static_cast<uint8_t>(value); return true;
    case Field::fill: map.nan_fill = static_cast<uint8_t>(value); return true;
  }
  return false;
}

// Host memory of the 128 bytes at a lane's address, checked and seen in pieces; nullptr after a fault.
uint8_t* map_at(Warp& w, const Instr& i, int lane, Space space, uint64_t address, bool write) {
  uint8_t* first = nullptr;
  if (address % kBytes) {
    report(w, i, Kind::misaligned, 1u << lane, "tensor map at " + hex(address) + ", which is not a multiple of 128");
    return nullptr;
  }
  uint64_t at[kLanes] = {};
  for (uint32_t k = 0; k < kBytes; k += kPiece) {
    Pointers p;
    at[lane] = address + k;
    if (!locate(w, i, 1u << lane, space, at, kPiece, write, p)) return nullptr;
    if (!first) first = p.at[lane];
    if (!w.block->observer) continue;
    if (write) observe_store(w, i, 1u << lane, p, kPiece, {nullptr, 0, false});
    else observe_load(w, i, 1u << lane, p, kPiece);
  }
  return first;
}

// imm: field, space, offset and base bytes, [ordinal], [value]. ops: address, [value].
Step op_replace(Warp& w, const Instr& i, Mask m) {
  const auto field = static_cast<Field>(i.imm[0]);
  const auto space = static_cast<Space>(i.imm[1]);
  const bool ordered = field >= Field::box_dim && field <= Field::element_stride;
  uint64_t address[kLanes];
  addresses(w, i.ops[0], i.imm[2], i.imm[3], address);
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    uint8_t* bytes = map_at(w, i, l, space, address[l], false);
    if (!bytes) return Step::fault;
    TensorMapImage map;
    std::memcpy(&map, bytes, kBytes);
    if (map.magic != TensorMapImage::kMagic) {
      report(w, i, Kind::illegal, 1u << l, "address " + hex(address[l]) + " holds no tensor map");
      return Step::fault;
    }
    const bool wide = field == Field::global_address || field == Field::global_stride;
    const uint64_t value = i.op_count < 2 ? static_cast<uint64_t>(i.imm[4]) : wide ? w.r64(i.ops[1])[l] : w.r32(i.ops[1])[l];
    if (!replace(map, field, ordered ? static_cast<uint64_t>(i.imm[4]) : 0, value)) {
      report(w, i, Kind::illegal, 1u << l, "a tensor map's field cannot be " + std::to_string(value));
      return Step::fault;
    }
    if (!map_at(w, i, l, space, address[l], true)) return Step::fault;
    std::memcpy(bytes, &map, kBytes);
  }
  return Step::next;
}

// imm: offset and base bytes of target and source. ops: target, source. One copy of the whole warp.
Step op_copy(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  uint64_t target[kLanes], source[kLanes];
  addresses(w, i.ops[0], i.imm[0], i.imm[1], target);
  addresses(w, i.ops[1], i.imm[2], i.imm[3], source);
  for (int l = 1; l < kLanes; ++l) {
    if (target[l] == target[0] && source[l] == source[0]) continue;
    report(w, i, Kind::illegal, 1u << l, "threads of the warp name different tensor maps");
    return Step::fault;
  }
  const uint8_t* from = map_at(w, i, 0, Space::shared, source[0], false);
  uint8_t* to = from ? map_at(w, i, 0, Space::global, target[0], true) : nullptr;
  if (!to) return Step::fault;
  std::memcpy(to, from, kBytes);
  return Step::next;
}

}  // namespace

void register_tensor_map(Registry& r) {
  r.add("tensormap.replace", op_replace);
  r.add("tensormap.copy", op_copy);
}

}  // namespace tilewright::vgpu
