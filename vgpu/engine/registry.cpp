#include "registry.h"

#include <stdexcept>

namespace tilewright::vgpu {

void Registry::add(const std::string& name, Handler handler) {
  if (!index_.emplace(name, static_cast<uint32_t>(names_.size())).second)
    throw std::logic_error("handler registered twice: " + name);
  names_.push_back(name);
  handlers_.push_back(handler);
}

const Registry& registry() {
  static const Registry all = [] {
    Registry r;
    register_integer(r);
    register_bits(r);
    register_float(r);
    register_half(r);
    register_convert(r);
    register_video(r);
    register_pack(r);
    register_compare(r);
    register_move(r);
    register_memory(r);
    register_atomic(r);
    register_warp(r);
    register_barrier(r);
    register_cluster(r);
    register_control(r);
    register_mma(r);
  register_mma_sparse(r);
  register_wmma(r);
    register_wgmma(r);
    register_ldmatrix(r);
    register_cp_async(r);
    register_bulk(r);
    register_async_store(r);
    register_tensor_map(r);
    register_mbarrier(r);
    return r;
  }();
  return all;
}

}  // namespace tilewright::vgpu
