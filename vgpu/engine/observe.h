// What the optional checks see: called by the instruction families when Block::observer is there.
#pragma once

#include "address.h"
#include "race.h"

namespace tilewright::vgpu {

constexpr uint32_t kWatchRaces = 1, kWatchBanks = 2, kWatchSectors = 4, kWatchTraffic = 8;
// Not even the standard checks: a faulty kernel may end the process. Only to measure what they cost.
constexpr uint32_t kUnchecked = 16;

// Counters of one instruction.
struct Tally {
  uint64_t runs = 0, lanes = 0;
  uint64_t shared_bytes = 0, global_bytes = 0;
  uint64_t wavefronts = 0, phases = 0;  // passes over the banks of shared memory, and how few would do
  uint64_t requests = 0, sectors = 0;   // global: warp accesses and the 32-byte sectors they touch

  void add(const Tally& t);
};

// Checks of one cluster.
struct Observer {
  uint32_t watch = 0;
  std::unique_ptr<RaceUnit> race;
  std::vector<Tally> tallies;  // by pc; empty when nothing is counted
};

// An instruction's traits, as vgpu/ptx/traits.py packs them.
enum class Order : uint8_t { weak, relaxed, acquire, release, acq_rel, sc };
inline Order order_of(const Instr& i) { return static_cast<Order>(i.traits & 7); }
inline bool releases(const Instr& i) { return order_of(i) >= Order::release; }
inline bool acquires(const Instr& i) { return order_of(i) == Order::acquire || order_of(i) >= Order::acq_rel; }

// Contiguous host memory.
struct Piece {
  const uint8_t* at;
  uint64_t bytes;
};

struct StoredValue {
  const uint32_t* ops;
  uint32_t element;
  bool wide;
};

// Ordinary loads, stores and atomics: `observe_*` before the effect, `observed_*` behind it.
void observe_load(Warp& w, const Instr& i, Mask m, const Pointers& p, uint32_t bytes);
void observed_load(Warp& w, const Instr& i, Mask m, const Pointers& p);
void observe_store(Warp& w, const Instr& i, Mask m, const Pointers& p, uint32_t bytes, const StoredValue& value);
void observe_atomic(Warp& w, const Instr& i, Mask m, const Pointers& p, uint32_t bytes);
inline void observed_atomic(Warp& w, const Instr& i, Mask m, const Pointers& p) { observed_load(w, i, m, p); }
// Release side of a strong write.
void publish(Warp& w, const Instr& i, Mask m, const Pointers& p, bool rmw);
// The 16-byte rows of ldmatrix and stmatrix: lane l names one when bit l of `m` is set.
void observe_rows(Warp& w, const Instr& i, Mask m, const Pointers& rows, bool write);
// Copies of cp.async, at issue. `read`: bytes of each lane that come from memory.
void observe_cp_async(Warp& w, const Instr& i, Mask m, const uint32_t* target, const uint8_t* const* source,
                      const uint8_t* read, uint32_t size);
// Groups of an asynchronous unit.
void observe_commit(Warp& w, Actor kind);
void observe_wait(Warp& w, Actor kind, uint32_t keep);
void observe_wait_of(Warp& w, const Warp& issuer, Actor kind, uint32_t keep);  // groups of another warp
void observe_wait_all(Warp& w, Actor kind);
// A wgmma that is issued, then the 16-byte chunks that it reads. Only when races are watched.
Probe begin_wgmma(Warp& w, const Instr& i);
void observe_chunk(Probe& p, uint32_t address);
// A transfer into shared memory that completes on an mbarrier, before it is submitted; and the pieces of its source.
// Its issue must be ordered behind the initialisation of the mbarrier, and that is enough: operations on an mbarrier are
// not accesses of the async proxy. The ISA has fence.mbarrier_init make an initialisation known to the other blocks of a
// cluster before transfers signal it; this fence is a release at cluster scope and no proxy fence. Inside a block bar.sync
// orders as much.
// `reduces`: element by element, atomically.
void observe_transfer(Warp& w, const Instr& i, int lane, uint32_t target, uint32_t bytes, uint32_t barrier,
                      bool reduces = false);
void observe_transfer_source(Warp& w, const Instr& i, int lane, const std::vector<Piece>& source, uint32_t barrier);
// A bulk store or reduction that is issued, then its source and the pieces of its target.
void observe_bulk(Warp& w);
void observe_bulk_source(Warp& w, const Instr& i, int lane, uint32_t address, uint32_t bytes);
void observe_bulk_target(Warp& w, const Instr& i, int lane, const std::vector<Piece>& target, bool reduces);
// Barriers.
void observe_barrier_arrive(Warp& w, uint32_t id);
void observe_barrier_done(Block& b, uint32_t id, const NamedBarrier& bar);
void observe_cluster_arrive(Warp& w, const Instr& i);
void observe_cluster_done(Block& b);
void observe_cluster_wait(Warp& w);
// The last threads of a block leave, and its shared memory with them.
void observe_exit(Warp& w, const Instr& i);
void observe_mbarrier_init(Warp& w, const Instr& i, int lane, uint32_t address);
void observe_mbarrier_use(Warp& w, const Instr& i, int lane, uint32_t address);
void observe_mbarrier_arrive(Warp& w, const Instr& i, uint32_t address);
void observe_copies_arrive(Warp& w, uint32_t address);  // cp.async.mbarrier.arrive
void observe_mbarrier_phase(Block& owner, uint32_t address);
void observe_mbarrier_wait(Warp& w, const Instr& i, uint32_t address);
// Fences.
void observe_fence(Warp& w, const Instr& i);
void observe_proxy_fence(Warp& w);

}  // namespace tilewright::vgpu
