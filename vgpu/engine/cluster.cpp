// barrier.cluster.arrive and .wait: all live threads of a cluster.
#include "interpret.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

const char* const kCluster = "barrier.cluster.wait";

Block& root(Block& b) { return *b.cluster.front(); }

uint32_t live_threads(const Block& b) {
  uint32_t n = 0;
  for (const Block* c : b.cluster)
    for (const Warp& w : c->warps) n += static_cast<uint32_t>(__builtin_popcount(w.exist & ~w.exited));
  return n;
}

void complete(Block& b) {
  Block& r = root(b);
  if (!r.cluster_arrived || r.cluster_arrived < live_threads(b)) return;
  r.cluster_arrived = 0;
  ++r.cluster_phase;
  observe_cluster_done(r);
  for (Block* c : b.cluster) c->notify();
}

Step arrive(Warp& w, const Instr& i, Mask m) {
  Block& r = root(*w.block);
  observe_cluster_arrive(w, i);
  for (Mask left = m; left; left &= left - 1) w.cluster_token[__builtin_ctz(left)] = r.cluster_phase;
  r.cluster_arrived += static_cast<uint32_t>(__builtin_popcount(m));
  complete(*w.block);
  return Step::yield;
}

Step wait(Warp& w, const Instr&, Mask m) {
  const Block& r = root(*w.block);
  for (Mask left = m; left; left &= left - 1)
    if (r.cluster_phase == w.cluster_token[__builtin_ctz(left)]) {
      w.wait_on = {kCluster, r.cluster_arrived, live_threads(*w.block)};
      return Step::retry;
    }
  observe_cluster_wait(w);
  return Step::next;
}

}  // namespace

void recheck_cluster(Block& b) { complete(b); }

void register_cluster(Registry& r) {
  r.add("barrier.cluster.arrive", arrive);
  r.add("barrier.cluster.wait", wait);
}

}  // namespace tilewright::vgpu
