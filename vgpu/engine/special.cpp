#include "special.h"

#include <algorithm>
#include <cstring>

namespace tilewright::vgpu {
namespace {

struct Where {
  uint32_t tid[3], ntid[3], ctaid[3], nctaid[3], cluster[3], in_cluster[3], cluster_id[3], nclusters[3];
  uint32_t rank, warp, lane, warps;
  const Launch* launch;
};

using Get = uint64_t (*)(const Where&);
struct Special {
  const char* name;
  Get get;
};

uint64_t lanemask(const Where& w, const char* kind) {
  const uint64_t bit = uint64_t{1} << w.lane;
  if (!std::strcmp(kind, "eq")) return bit;
  if (!std::strcmp(kind, "lt")) return bit - 1;
  if (!std::strcmp(kind, "le")) return (bit << 1) - 1;
  if (!std::strcmp(kind, "gt")) return ~((bit << 1) - 1) & kFull;
  return ~(bit - 1) & kFull;
}

#define TRIPLE(name, field)                                      \
  {name ".x", [](const Where& w) -> uint64_t { return w.field[0]; }}, \
  {name ".y", [](const Where& w) -> uint64_t { return w.field[1]; }}, \
  {name ".z", [](const Where& w) -> uint64_t { return w.field[2]; }}

const Special kSpecials[] = {
    TRIPLE("%tid", tid),
    TRIPLE("%ntid", ntid),
    TRIPLE("%ctaid", ctaid),
    TRIPLE("%nctaid", nctaid),
    TRIPLE("%cluster_nctaid", cluster),
    TRIPLE("%cluster_ctaid", in_cluster),
    TRIPLE("%clusterid", cluster_id),
    TRIPLE("%nclusterid", nclusters),
    {"%cluster_ctarank", [](const Where& w) -> uint64_t { return w.rank; }},
    {"%cluster_nctarank",
     [](const Where& w) -> uint64_t { return uint64_t{w.cluster[0]} * w.cluster[1] * w.cluster[2]; }},
    {"%is_explicit_cluster",
     [](const Where& w) -> uint64_t { return w.cluster[0] * w.cluster[1] * w.cluster[2] > 1; }},
    {"%laneid", [](const Where& w) -> uint64_t { return w.lane; }},
    {"%warpid", [](const Where& w) -> uint64_t { return w.warp; }},
    {"%nwarpid", [](const Where& w) -> uint64_t { return w.warps; }},
    {"%smid", [](const Where&) -> uint64_t { return 0; }},
    {"%nsmid", [](const Where& w) -> uint64_t { return w.launch->processors; }},
    {"%gridid", [](const Where& w) -> uint64_t { return w.launch->index + 1; }},
    {"%lanemask_eq", [](const Where& w) -> uint64_t { return lanemask(w, "eq"); }},
    {"%lanemask_lt", [](const Where& w) -> uint64_t { return lanemask(w, "lt"); }},
    {"%lanemask_le", [](const Where& w) -> uint64_t { return lanemask(w, "le"); }},
    {"%lanemask_gt", [](const Where& w) -> uint64_t { return lanemask(w, "gt"); }},
    {"%lanemask_ge", [](const Where& w) -> uint64_t { return lanemask(w, "ge"); }},
    {"%envreg0", [](const Where&) -> uint64_t { return 0; }},
    {"%envreg1", [](const Where& w) -> uint64_t { return w.launch->workspace >> 32; }},
    {"%envreg2", [](const Where& w) -> uint64_t { return w.launch->workspace & 0xffffffffu; }},
    // Shared memory that the system keeps for itself is not modelled: an access beyond the block is a finding.
    {"%reserved_smem_offset_begin", [](const Where& w) -> uint64_t { return w.launch->shared_bytes; }},
    {"%reserved_smem_offset_end", [](const Where& w) -> uint64_t { return w.launch->shared_bytes; }},
    {"%reserved_smem_offset_cap", [](const Where& w) -> uint64_t { return w.launch->shared_bytes; }},
    {"%reserved_smem_offset_0", [](const Where& w) -> uint64_t { return w.launch->shared_bytes; }},
    {"%reserved_smem_offset_1", [](const Where& w) -> uint64_t { return w.launch->shared_bytes; }},
    {"%dynamic_smem_size", [](const Where& w) -> uint64_t { return w.launch->dynamic_bytes; }},
    {"%total_smem_size", [](const Where& w) -> uint64_t { return w.launch->shared_bytes; }},
    {"%aggr_smem_size", [](const Where& w) -> uint64_t { return w.launch->shared_bytes; }},
};

void unflatten(uint64_t index, const uint32_t* size, uint32_t* out) {
  out[0] = static_cast<uint32_t>(index % size[0]);
  out[1] = static_cast<uint32_t>(index / size[0] % size[1]);
  out[2] = static_cast<uint32_t>(index / size[0] / size[1]);
}

void store(Warp& w, const Constant& c, int lane, uint64_t value) {
  if (c.wide) w.r64(c.slot)[lane] = value;
  else w.r32(c.slot)[lane] = static_cast<uint32_t>(value);
}

void fill_specials(Warp& w, Where where) {
  const Launch& launch = *where.launch;
  for (const Constant& c : launch.program->constants) {
    if (c.kind != ConstantKind::special) continue;
    for (int l = 0; l < kLanes; ++l) {
      where.lane = static_cast<uint32_t>(l);
      unflatten(w.index * 32 + static_cast<uint32_t>(l), launch.block, where.tid);
      store(w, c, l, kSpecials[c.value].get(where));
    }
  }
}

void make_file(Launch& launch, Warp& w) {
  const Program& p = *launch.program;
  w.storage.resize(p.file_bytes + 64);
  const auto base = reinterpret_cast<uintptr_t>(w.storage.data());
  w.file = reinterpret_cast<std::byte*>((base + 63) & ~uintptr_t{63});
  w.pred_storage.assign(p.pred_count, 0);
  w.preds = w.pred_storage.data();
  w.preds[1] = kFull;
  for (size_t k = 0; k < p.constants.size(); ++k)
    if (p.constants[k].kind != ConstantKind::special)
      for (int l = 0; l < kLanes; ++l) store(w, p.constants[k], l, launch.constants[k]);
}

void start_warp(Launch& launch, Warp& w, uint32_t threads) {
  if (!w.file) make_file(launch, w);
  const uint32_t left = threads - w.index * 32;
  w.exist = left >= 32 ? kFull : (1u << left) - 1;
  w.exited = 0;
  w.executed = 0;
  w.yielded = w.wrote = false;
  w.lead = 0;
  w.merges = 0;
  std::fill(w.cluster_token, w.cluster_token + kLanes, 0);
  w.cp_async.clear();
  w.bulk.clear();
  w.wgmma.clear();
  w.wgmma_issued = 0;
  w.wgmma_fenced = false;
  w.register_changes = 0;
  std::fill(w.stack, w.stack + kLanes, 0);
  w.register_change = nullptr;
  w.local.assign(size_t{launch.local_bytes} * kLanes, 0);
  w.paths.assign(1, Path{});
  w.paths[0].pc = launch.entry;
  w.paths[0].mask = w.exist;
  w.current = 0;
  if (launch.tracked) {
    const Program& p = *launch.program;
    w.undefined.assign(p.file_bytes / kSlotBytes, 0);
    std::fill(w.undefined.begin() + 2, w.undefined.begin() + p.register_bytes / kSlotBytes, kFull);
    w.undefined_preds.assign(p.pred_count, kFull);
    w.undefined_preds[0] = w.undefined_preds[1] = 0;
  }
}

}  // namespace

const std::vector<std::string>& special_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Special& s : kSpecials) out.emplace_back(s.name);
    return out;
  }();
  return names;
}

void start_block(Launch& launch, Block& b, uint64_t unit, uint32_t rank) {
  uint32_t clusters[3];
  Where where{};
  where.launch = &launch;
  where.rank = rank;
  for (int d = 0; d < 3; ++d) {
    clusters[d] = launch.grid[d] / launch.cluster[d];
    where.ntid[d] = launch.block[d];
    where.nctaid[d] = launch.grid[d];
    where.cluster[d] = launch.cluster[d];
    where.nclusters[d] = clusters[d];
  }
  unflatten(unit, clusters, where.cluster_id);
  unflatten(rank, launch.cluster, where.in_cluster);
  for (int d = 0; d < 3; ++d) where.ctaid[d] = where.cluster_id[d] * launch.cluster[d] + where.in_cluster[d];
  const uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  where.warps = (threads + 31) / 32;
  b.launch = &launch;
  b.x = where.ctaid[0];
  b.y = where.ctaid[1];
  b.z = where.ctaid[2];
  b.rank = rank;
  b.event = 1;
  b.cluster_arrived = 0;
  b.cluster_phase = 1;
  b.random = (launch.run->seed * 0x9e3779b97f4a7c15ull) ^ ((launch.first_unit + unit + 1) * 0xbf58476d1ce4e5b9ull) ^ (rank + 1);
  b.smem.resize(launch.shared_bytes);
  b.shadow.assign(launch.run->checked ? launch.shared_bytes : 0, 0);
  b.mbarriers.clear();
  b.mbarrier_logs.clear();
  b.in_flight.clear();
  for (NamedBarrier& bar : b.barriers) bar = NamedBarrier{};
  b.warps.resize(where.warps);
  for (uint32_t k = 0; k < where.warps; ++k) {
    b.warps[k].block = &b;
    b.warps[k].index = k;
    start_warp(launch, b.warps[k], threads);
    where.warp = k;
    fill_specials(b.warps[k], where);
  }
}

}  // namespace tilewright::vgpu
