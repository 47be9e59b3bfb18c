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
  if (i.imm[0] && m != (w.exist & ~w.exited)) {
    report(w, i, Kind::barrier, m, "barrier.cluster.arrive.aligned is run by a part of the warp, lanes " + hex(m));
    return Step::fault;
  }
  for (Mask left = m; left; left &= left - 1) {
    if (!w.cluster_token[__builtin_ctz(left)]) continue;
    report(w, i, Kind::barrier, left & (0u - left), "the thread arrives at the cluster barrier again and has not waited");
    return Step::fault;
  }
  observe_cluster_arrive(w, i);
  for (Mask left = m; left; left &= left - 1) w.cluster_token[__builtin_ctz(left)] = r.cluster_phase;
  r.cluster_arrived += static_cast<uint32_t>(__builtin_popcount(m));
  complete(*w.block);
  return Step::yield;
}

Step wait(Warp& w, const Instr& i, Mask m) {
  const Block& r = root(*w.block);
  if (i.imm[0] && m != (w.exist & ~w.exited)) {
    report(w, i, Kind::barrier, m, "barrier.cluster.wait.aligned is run by a part of the warp, lanes " + hex(m));
    return Step::fault;
  }
  for (Mask left = m; left; left &= left - 1) {
    if (w.cluster_token[__builtin_ctz(left)]) continue;
    report(w, i, Kind::barrier, left & (0u - left), "the thread waits at the cluster barrier and has not arrived");
    return Step::fault;
  }
  for (Mask left = m; left; left &= left - 1)
    if (r.cluster_phase == w.cluster_token[__builtin_ctz(left)]) {
      w.wait_on = {kCluster, r.cluster_arrived, live_threads(*w.block)};
      return Step::retry;
    }
  for (Mask left = m; left; left &= left - 1) w.cluster_token[__builtin_ctz(left)] = 0;
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
