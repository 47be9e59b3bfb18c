// Names of handlers. A family's decoder in Python names a handler by the string it is registered under.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "machine.h"

namespace tilewright::vgpu {

class Registry {
 public:
  void add(const std::string& name, Handler handler);
  const std::vector<std::string>& names() const { return names_; }
  Handler at(uint32_t index) const { return handlers_[index]; }
  uint32_t index(const std::string& name) const { return index_.at(name); }

 private:
  std::vector<std::string> names_;
  std::vector<Handler> handlers_;
  std::unordered_map<std::string, uint32_t> index_;
};

const Registry& registry();  // all families, built once

// One function a family, defined in the family's file, called by registry().
void register_integer(Registry& r);
void register_bits(Registry& r);
void register_float(Registry& r);
void register_half(Registry& r);
void register_convert(Registry& r);
void register_video(Registry& r);
void register_pack(Registry& r);
void register_compare(Registry& r);
void register_move(Registry& r);
void register_memory(Registry& r);
void register_atomic(Registry& r);
void register_warp(Registry& r);
void register_barrier(Registry& r);
void register_cluster(Registry& r);
void register_control(Registry& r);
// matrix and asynchronous families
void register_mma(Registry& r);
void register_mma_sparse(Registry& r);
void register_wmma(Registry& r);
void register_wgmma(Registry& r);
void register_ldmatrix(Registry& r);
void register_cp_async(Registry& r);
void register_bulk(Registry& r);
void register_async_store(Registry& r);
void register_tensor_map(Registry& r);
void register_mbarrier(Registry& r);

// Exit check of a block's mbarriers (mbarrier.cpp): reports tx-count != 0 or a phase in progress with arrivals.
void mbarrier_exit_check(Block& b);
// Who announced bytes last on an mbarrier, in its current phase (line 0: nobody).
Site announcement(const Block& b, uint32_t offset);
// Text for a deadlock report about the mbarrier at a shared offset (mbarrier.cpp): phase, pending, tx.
std::string mbarrier_state(Block& b, uint32_t offset);

}  // namespace tilewright::vgpu
