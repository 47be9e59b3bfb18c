// cp.async.bulk: tensor tiles and plain bytes between global and shared memory.
#include "bulk.h"


#include "collective.h"
#include "mbarrier.h"
#include "observe.h"
#include "reduction.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

constexpr uint32_t kTileAlign = 128;
constexpr uint32_t kBulkAlign = 16;
constexpr uint32_t kMaxBulk = (1u << 20) - 16;  // what a tx-count can hold

struct Tile {
  TensorMapImage map;
  TilePlace place;
};

// `shape`: the rank, and 8 more in im2col mode.
bool decode_tile(Warp& w, const Instr& i, int lane, const uint32_t* ops, int64_t shape, int64_t offset, Tile& tile) {
  const int rank = static_cast<int>(shape & 7);
  if (!load_tensor_map(w, i, lane, w.r64(ops[0])[lane] + static_cast<uint64_t>(offset), tile.map)) return false;
  if (tile.map.rank != rank) {
    report(w, i, Kind::illegal, 1u << lane,
           "a " + std::to_string(rank) + "-D tile of a tensor map of rank " + std::to_string(tile.map.rank));
    return false;
  }
  if ((tile.map.im2col != 0) != (shape > 7)) {
    report(w, i, Kind::illegal, 1u << lane,
           tile.map.im2col ? "a tile of a tensor map made for im2col" : "im2col with a tensor map made for tiles");
    return false;
  }
  tile.place = {};
  for (int dim = 0; dim < rank; ++dim) tile.place.at[dim] = static_cast<int32_t>(w.r32(ops[1 + dim])[lane]);
  return true;
}

// Swizzled units stay in their 128-byte line, so the last line must exist as a whole.
uint32_t footprint(const TensorMapImage& map) {
  const uint32_t bytes = map.tile_bytes();
  return map.swizzle ? (bytes + kTileAlign - 1) / kTileAlign * kTileAlign : bytes;
}

// Calls visit(address, bytes) for the pieces of shared memory that the tile fills, without the gaps of its last line.
template <class Visit>
void for_tile_pieces(const TensorMapImage& map, uint32_t address, Visit visit) {
  const uint32_t bytes = map.tile_bytes();
  const uint32_t whole = map.swizzle ? bytes / kTileAlign * kTileAlign : bytes;
  if (whole) visit(address, whole);
  for (uint32_t k = whole; k < bytes; k += kBulkAlign) {
    const uint32_t at = (address & ~kSharedOffset) | swizzle_address((address & kSharedOffset) + k, static_cast<Swizzle>(map.swizzle));
    visit(at, std::min(kBulkAlign, bytes - k));
  }
}

uint32_t address_operand(Warp& w, int lane, uint32_t op, const int64_t* place) {
  const uint32_t base = place[1] == 4 ? w.r32(op)[lane] : static_cast<uint32_t>(w.r64(op)[lane]);
  return base + static_cast<uint32_t>(place[0]);
}

// The blocks that a load writes: the one that the address names, or those of the multicast mask.
struct Targets {
  std::vector<uint32_t> windows;  // bits 24-31 of their addresses
};

Targets targets(Warp& w, const Instr& i, bool multicast, uint32_t mask_op, int lane, uint32_t address) {
  if (!multicast) return {{address & ~kSharedOffset}};
  Targets all;
  const uint32_t mask = w.r32(mask_op)[lane] & 0xffffu;
  for (uint32_t rank = 0; rank < w.block->cluster.size(); ++rank) {
    if (mask >> rank & 1) all.windows.push_back((rank + 1) << 24);
  }
  if (all.windows.size() != static_cast<size_t>(__builtin_popcount(mask))) {
    report(w, i, Kind::illegal, 1u << lane, "multicast mask " + hex(mask) + " names blocks outside the cluster");
  }
  return all;
}

std::vector<Piece> pieces_of(const Tile& tile) {
  std::vector<Piece> out;
  const uint64_t size = tile.map.element_bytes();
  for_tile_rows(tile.map, tile.place, [&](const TileRow& row) {
    if (row.last > row.first) out.push_back({reinterpret_cast<const uint8_t*>(row.global), (row.last - row.first) * size});
  });
  return out;
}

// imm: shape, multicast, offset and base bytes of the target, offset of the map, offset and base bytes of the barrier.
// ops: target, map, coordinates, barrier, [im2col offsets], [mask].
Step tensor_load(Warp& w, const Instr& i, Mask m) {
  const int rank = static_cast<int>(i.imm[0] & 7), offsets = i.imm[0] > 7 ? rank - 2 : 0;
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    Tile tile;
    if (!decode_tile(w, i, lane, i.ops + 1, i.imm[0], i.imm[4], tile)) return Step::fault;
    for (int k = 0; k < offsets; ++k) tile.place.offset[k] = static_cast<uint16_t>(w.r32(i.ops[3 + rank + k])[lane]);
    const uint32_t target = address_operand(w, lane, i.ops[0], i.imm + 2);
    const uint32_t barrier = address_operand(w, lane, i.ops[2 + rank], i.imm + 5);
    const Targets all = targets(w, i, i.imm[1] != 0, i.ops[2 + rank + offsets + (i.imm[1] != 0)], lane, target);
    for (const uint32_t window : all.windows) {
      const bool multicast = i.imm[1] != 0;
      const uint32_t to = multicast ? (target & kSharedOffset) | window : target;
      const uint32_t signal = multicast ? (barrier & kSharedOffset) | window : barrier;
      if (!shared_at(w, i, lane, to, footprint(tile.map), kTileAlign)) return Step::fault;
      if (!mbarrier_check(w, i, lane, signal)) return Step::fault;
      if (w.block->observer) {
        if (window == all.windows.front()) observe_transfer_source(w, i, lane, pieces_of(tile), signal);
        for_tile_pieces(tile.map, to, [&](uint32_t at, uint32_t bytes) { observe_transfer(w, i, lane, at, bytes, signal); });
      }
      w.block->submit([block = w.block, instr = &i, tile, to, signal] {
        load_tile(tile.map, tile.place, shared_owner(*block, to)->smem.data(), to & kSharedOffset);
        for_tile_pieces(tile.map, to, [&](uint32_t at, uint32_t bytes) { shared_mark(*block, at, bytes, Proxy::async); });
        mbarrier_add_tx(*block, *instr, signal, -int64_t{tile.map.tile_bytes()});
      });
    }
  }
  return Step::next;
}

ReductionType element_type(const TensorMapImage& map) {
  constexpr ReductionType kTypes[] = {ReductionType::u32, ReductionType::u32, ReductionType::u32, ReductionType::s32,
                                      ReductionType::u64, ReductionType::s64, ReductionType::f16, ReductionType::f32,
                                      ReductionType::f64, ReductionType::bf16};
  return map.type < 10 ? kTypes[map.type] : ReductionType::f32;
}

// `reduction` 0 stores, else combines with Reduction(reduction - 1).
void store_tile(const Tile& tile, const uint8_t* packed, int reduction) {
  const uint32_t size = tile.map.element_bytes();
  for_tile_rows(tile.map, tile.place, [&](const TileRow& row) {
    const uint32_t count = row.last - row.first;
    auto* to = reinterpret_cast<uint8_t*>(row.global);
    const uint8_t* from = packed + row.tile_offset + row.first * size;
    if (count == 0) return;
    if (reduction == 0) {
      std::memcpy(to, from, count * size);
    } else {
      reduce_into(static_cast<Reduction>(reduction - 1), element_type(tile.map), to, from, count);
    }
  });
}

bool reducible(Warp& w, const Instr& i, ReductionType type, int reduction) {
  uint64_t cell = 0, operand = 0;
  if (reduction == 0 || reduce_into(static_cast<Reduction>(reduction - 1), type, &cell, &operand, 1)) return true;
  report(w, i, Kind::illegal, kFull, "no such reduction exists for elements of this type");
  return false;
}

bool reducible(Warp& w, const Instr& i, const TensorMapImage& map, int reduction) {
  if (reduction == 0 || map.type >= 2) return reducible(w, i, element_type(map), reduction);
  report(w, i, Kind::illegal, kFull, "cp.reduce.async.bulk.tensor on elements of 8 or 16 bits without a float type");
  return false;
}

// Stores read shared memory of their own block only (.shared::cta).
bool own_source(Warp& w, const Instr& i, int lane, uint32_t source) {
  if (shared_owner(*w.block, source) == w.block) return true;
  report(w, i, Kind::illegal, 1u << lane, "the source lies in the shared memory of another block");
  return false;
}

void check_source(Warp& w, const Instr& i, int lane, uint32_t source, uint32_t bytes) {
  if (!shared_ready(*w.block, source & kSharedOffset, bytes, Proxy::async)) {
    report_not_ready(w, i, lane, source, bytes, Proxy::async);
  }
}

// A store takes `bytes` from shared memory by `take` and writes them by `put`: now, or as late as waits allow. A wait
// for the reads alone leaves the writes outstanding, to the end of the block where nobody waits for them.
template <class Take, class Put>
void enqueue(Warp& w, Mask lane, uint32_t bytes, Take take, Put put) {
  auto data = std::make_shared<std::vector<uint8_t>>();
  const auto read = [data, bytes, take](Mask) {
    data->resize(bytes);
    take(data->data());
  };
  const auto land = [data, put](Mask) { put(data->data()); };
  if (w.launch().lazy()) {
    w.bulk.add(lane, read, land);
    return;
  }
  read(lane);
  land(lane);
  w.bulk.add(lane, {});
}

// imm: shape, reduction, offset of the map, offset and base bytes of the source. ops: map, coordinates, source.
Step tensor_store(Warp& w, const Instr& i, Mask m) {
  const int rank = static_cast<int>(i.imm[0] & 7), reduction = static_cast<int>(i.imm[1]);
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    Tile tile;
    if (!decode_tile(w, i, lane, i.ops, i.imm[0], i.imm[2], tile)) return Step::fault;
    if (!reducible(w, i, tile.map, reduction)) return Step::fault;
    const uint32_t source = address_operand(w, lane, i.ops[1 + rank], i.imm + 3);
    if (!own_source(w, i, lane, source)) return Step::fault;
    if (!shared_at(w, i, lane, source, footprint(tile.map), kTileAlign)) return Step::fault;
    for_tile_pieces(tile.map, source, [&](uint32_t at, uint32_t bytes) { check_source(w, i, lane, at, bytes); });
    if (w.block->observer) {
      observe_bulk(w);
      for_tile_pieces(tile.map, source, [&](uint32_t at, uint32_t bytes) { observe_bulk_source(w, i, lane, at, bytes); });
      observe_bulk_target(w, i, lane, pieces_of(tile), reduction != 0);
    }
    enqueue(
        w, 1u << lane, tile.map.tile_bytes(),
        [block = w.block, tile, source](uint8_t* packed) {
          unswizzle_tile(tile.map, block->smem.data(), source & kSharedOffset, packed);
        },
        [tile, reduction](const uint8_t* packed) { store_tile(tile, packed, reduction); });
  }
  return Step::next;
}

// Size and alignment rules of plain bulk copies.
bool bulk_size(Warp& w, const Instr& i, int lane, uint32_t bytes) {
  if (bytes % kBulkAlign == 0 && bytes <= kMaxBulk) return true;
  report(w, i, Kind::illegal, 1u << lane,
         "cp.async.bulk of " + std::to_string(bytes) + " bytes: not a multiple of 16 below 2^20");
  return false;
}

const uint8_t* bulk_source(Warp& w, const Instr& i, int lane, uint32_t bytes) {
  if (i.imm[0]) {
    const uint64_t address = w.r64(i.ops[1])[lane] + static_cast<uint64_t>(i.imm[6]);
    return global_at(w, i, lane, address, bytes, kBulkAlign, false);
  }
  return shared_read(w, i, lane, address_operand(w, lane, i.ops[1], i.imm + 6), bytes, kBulkAlign, Proxy::async);
}

// imm: from global (else from shared), multicast, reduction, its type, then offset and base bytes of target, source and
// barrier.
// ops: target, source, bytes, barrier, [mask].
Step bulk_load(Warp& w, const Instr& i, Mask m) {
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    const uint32_t bytes = w.r32(i.ops[2])[lane];
    if (!bulk_size(w, i, lane, bytes)) return Step::fault;
    const uint8_t* source = bulk_source(w, i, lane, bytes);
    if (!source) return Step::fault;
    const uint32_t target = address_operand(w, lane, i.ops[0], i.imm + 4);
    const uint32_t barrier = address_operand(w, lane, i.ops[3], i.imm + 8);
    const bool multicast = i.imm[1] != 0;
    const auto reduction = static_cast<int>(i.imm[2]);
    const auto type = static_cast<ReductionType>(i.imm[3]);
    for (const uint32_t window : targets(w, i, multicast, i.ops[3 + multicast], lane, target).windows) {
      const uint32_t to = multicast ? (target & kSharedOffset) | window : target;
      const uint32_t signal = multicast ? (barrier & kSharedOffset) | window : barrier;
      if (!shared_at(w, i, lane, to, bytes, kBulkAlign) || !mbarrier_check(w, i, lane, signal)) return Step::fault;
      if (w.block->observer) {
        observe_transfer_source(w, i, lane, {{source, bytes}}, signal);
        observe_transfer(w, i, lane, to, bytes, signal, reduction != 0);
      }
      if (reduction && !shared_ready(*shared_owner(*w.block, to), to & kSharedOffset, bytes, Proxy::generic))
        report_not_ready(w, i, lane, to, bytes, Proxy::generic);
      w.block->submit([block = w.block, instr = &i, source, to, signal, bytes, reduction, type] {
        uint8_t* at = shared_owner(*block, to)->smem.data() + (to & kSharedOffset);
        if (reduction == 0) std::memcpy(at, source, bytes);
        else reduce_into(static_cast<Reduction>(reduction - 1), type, at, source, bytes / reduction_bytes(type));
        shared_mark(*block, to, bytes, Proxy::async);
        mbarrier_add_tx(*block, *instr, signal, -int64_t{bytes});
      });
    }
  }
  return Step::next;
}

// imm: reduction, type, then offset and base bytes of target and source. ops: target, source, bytes.
Step bulk_store(Warp& w, const Instr& i, Mask m) {
  const int reduction = static_cast<int>(i.imm[0]);
  const auto type = static_cast<ReductionType>(i.imm[1]);
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    const uint32_t bytes = w.r32(i.ops[2])[lane];
    if (!bulk_size(w, i, lane, bytes) || !reducible(w, i, type, reduction)) return Step::fault;
    const uint32_t from = address_operand(w, lane, i.ops[1], i.imm + 4);
    if (!own_source(w, i, lane, from)) return Step::fault;
    const uint64_t address = w.r64(i.ops[0])[lane] + static_cast<uint64_t>(i.imm[2]);
    uint8_t* target = global_at(w, i, lane, address, bytes, kBulkAlign, true);
    const uint8_t* source = shared_read(w, i, lane, from, bytes, kBulkAlign, Proxy::async);
    if (!target || !source) return Step::fault;
    if (w.block->observer) {
      observe_bulk(w);
      observe_bulk_source(w, i, lane, from & kSharedOffset, bytes);
      observe_bulk_target(w, i, lane, {{target, bytes}}, reduction != 0);
    }
    enqueue(
        w, 1u << lane, bytes, [source, bytes](uint8_t* data) { std::memcpy(data, source, bytes); },
        [target, bytes, reduction, type](const uint8_t* data) {
          if (reduction == 0) {
            std::memcpy(target, data, bytes);
          } else {
            reduce_into(static_cast<Reduction>(reduction - 1), type, target, data, bytes / reduction_bytes(type));
          }
        });
  }
  return Step::next;
}

Step prefetch(Warp&, const Instr&, Mask) { return Step::next; }

// ops: address, bytes. imm: offset, base bytes.
Step prefetch_bytes(Warp& w, const Instr& i, Mask m) {
  for (Mask left = m; left; left &= left - 1) {
    const int lane = w.first_lane(left);
    const uint32_t bytes = w.r32(i.ops[1])[lane];
    const uint64_t address = w.r64(i.ops[0])[lane] + static_cast<uint64_t>(i.imm[0]);
    if (bytes % kBulkAlign || address % kBulkAlign) {
      report(w, i, bytes % kBulkAlign ? Kind::illegal : Kind::misaligned, 1u << lane,
             "a prefetch of " + std::to_string(bytes) + " bytes at " + hex(address) + ": both are multiples of 16");
      return Step::fault;
    }
  }
  return Step::next;
}

Step commit(Warp& w, const Instr&, Mask m) {
  w.bulk.commit(m);
  if (w.block->observer) {
    observe_commit(w, Actor::bulk_read);
    observe_commit(w, Actor::bulk_write);
  }
  return Step::next;
}

// imm: only the sources must have been read, groups that may stay in flight.
Step wait_group(Warp& w, const Instr& i, Mask m) {
  if (i.imm[0] && w.launch().lazy()) w.bulk.wait_read(m, static_cast<uint32_t>(i.imm[1]));
  else w.bulk.wait(m, static_cast<uint32_t>(i.imm[1]));
  if (w.block->observer) {
    observe_wait(w, Actor::bulk_read, static_cast<uint32_t>(i.imm[1]));
    if (!i.imm[0]) observe_wait(w, Actor::bulk_write, static_cast<uint32_t>(i.imm[1]));
  }
  return Step::next;
}

// The bytes of the tensor map, or nullptr.
const uint8_t* map_bytes(Warp& w, uint64_t address) {
  Launch& launch = w.launch();
  if (window_of(address) == Window::param) {
    const auto offset = static_cast<uint32_t>(address);
    return offset + sizeof(TensorMapImage) <= launch.params.size() ? launch.params.data() + offset : nullptr;
  }
  return window_of(address) == Window::global ? global_find(launch, address, sizeof(TensorMapImage), false) : nullptr;
}

}  // namespace

bool load_tensor_map(Warp& w, const Instr& i, int lane, uint64_t address, TensorMapImage& map) {
  const uint8_t* bytes = map_bytes(w, address);
  if (bytes) std::memcpy(&map, bytes, sizeof map);
  if (!bytes || map.magic != TensorMapImage::kMagic || !map.sound()) {
    report(w, i, Kind::illegal, 1u << lane, "address " + hex(address) + " holds no tensor map");
    return false;
  }
  if (global_find(w.launch(), map.base, map.extent(), false)) return true;
  report(w, i, Kind::out_of_bounds, 1u << lane,
         "the tensor of the map, " + std::to_string(map.extent()) + " bytes from " + hex(map.base) +
             ", is not memory of this launch");
  return false;
}

void register_bulk(Registry& r) {
  r.add("bulk.tensor_load", tensor_load);
  r.add("bulk.tensor_store", tensor_store);
  r.add("bulk.load", bulk_load);
  r.add("bulk.store", bulk_store);
  r.add("bulk.prefetch", prefetch);
  r.add("bulk.prefetch_bytes", prefetch_bytes);
  r.add("cp.async.bulk.commit_group", commit);
  r.add("cp.async.bulk.wait_group", wait_group);
}

}  // namespace tilewright::vgpu
