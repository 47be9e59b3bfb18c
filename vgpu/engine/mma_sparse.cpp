#include "registry.h"
namespace tilewright::vgpu { void register_mma_sparse(Registry&) {} }
