// Activations of functions. A thread has one set of registers and locals for each function; a call of a function that is
// active already puts them aside until the call returns.
#pragma once

#include "program.h"

namespace tilewright::vgpu {

constexpr uint32_t kStackBytes = 16384;  // of alloca, behind the static local memory of a thread
constexpr size_t kMaxFrames = 512;

// Registers, predicates and locals of a function, all lanes; only those of the lanes that share the frame count.
struct Saved {
  const FunctionRange* function = nullptr;  // nullptr: only the stack
  uint32_t stack[kLanes] = {};
  std::vector<std::byte> registers;
  std::vector<uint32_t> predicates;
  std::vector<uint8_t> locals;  // lane by lane, range by range
  std::vector<Mask> undefined, undefined_predicates;
};

const FunctionRange* function_at(const Program& p, uint32_t entry);
std::shared_ptr<const Saved> save(const Warp& w, Mask lanes, const FunctionRange* function);
void restore(Warp& w, Mask lanes, const Saved& saved);
// What two paths that meet put aside, as one: that of `lanes` is in `b`.
std::shared_ptr<const Saved> joined(const std::shared_ptr<const Saved>& a, const std::shared_ptr<const Saved>& b,
                                    Mask lanes);

}  // namespace tilewright::vgpu
