#include "frames.h"

#include <cstring>

#include "launch.h"

namespace tilewright::vgpu {
namespace {

// Calls visit(offset in `locals`, offset in the local memory of all lanes, bytes) for the ranges of the lanes.
template <class Visit>
void for_locals(const Warp& w, Mask lanes, const FunctionRange& f, Visit visit) {
  size_t at = 0;
  for (int l = 0; l < kLanes; ++l)
    for (const auto& [lo, hi] : f.locals) {
      if (lanes >> l & 1) visit(at, static_cast<size_t>(l) * w.launch().local_bytes + lo, hi - lo);
      at += hi - lo;
    }
}

// Copies the lanes of every slot in [lo, hi) of a register file; a slot pair of a 64-bit register is two slots.
void copy_lanes(Mask lanes, const FunctionRange& f, std::byte* to, const std::byte* from) {
  for (const auto& [slot, wide] : f.slots) {
    const uint32_t bytes = wide ? 8 : 4;
    for (Mask left = lanes; left; left &= left - 1) {
      const uint32_t at = slot - f.first_slot + bytes * static_cast<uint32_t>(__builtin_ctz(left));
      std::memcpy(to + at, from + at, bytes);
    }
  }
}

void blend(std::vector<uint32_t>& to, const std::vector<uint32_t>& from, Mask lanes) {
  for (size_t k = 0; k < to.size(); ++k) to[k] = (to[k] & ~lanes) | (from[k] & lanes);
}

}  // namespace

const FunctionRange* function_at(const Program& p, uint32_t entry) {
  for (const FunctionRange& f : p.functions)
    if (f.entry == entry) return &f;
  return nullptr;
}

std::shared_ptr<const Saved> save(const Warp& w, Mask lanes, const FunctionRange* function) {
  auto s = std::make_shared<Saved>();
  s->function = function;
  std::copy(w.stack, w.stack + kLanes, s->stack);
  if (!function) return s;
  const FunctionRange& f = *function;
  s->registers.assign(w.file + f.first_slot, w.file + f.last_slot);
  s->predicates.assign(w.preds + f.first_predicate, w.preds + f.last_predicate);
  size_t bytes = 0;
  for (const auto& [lo, hi] : f.locals) bytes += hi - lo;
  s->locals.resize(bytes * kLanes);
  for_locals(w, lanes, f, [&](size_t at, size_t place, size_t size) { std::memcpy(&s->locals[at], &w.local[place], size); });
  if (!w.undefined.empty()) {
    s->undefined.assign(w.undefined.begin() + f.first_slot / kSlotBytes, w.undefined.begin() + f.last_slot / kSlotBytes);
    s->undefined_predicates.assign(w.undefined_preds.begin() + f.first_predicate,
                                   w.undefined_preds.begin() + f.last_predicate);
  }
  return s;
}

void restore(Warp& w, Mask lanes, const Saved& s) {
  for (Mask left = lanes; left; left &= left - 1) w.stack[__builtin_ctz(left)] = s.stack[__builtin_ctz(left)];
  if (!s.function) return;
  const FunctionRange& f = *s.function;
  copy_lanes(lanes, f, w.file + f.first_slot, s.registers.data());
  const auto put = [&](uint32_t* to, const std::vector<uint32_t>& from) {
    for (size_t k = 0; k < from.size(); ++k) to[k] = (to[k] & ~lanes) | (from[k] & lanes);
  };
  put(w.preds + f.first_predicate, s.predicates);
  for_locals(w, lanes, f, [&](size_t at, size_t place, size_t size) { std::memcpy(&w.local[place], &s.locals[at], size); });
  if (s.undefined.empty() && s.undefined_predicates.empty()) return;
  put(w.undefined.data() + f.first_slot / kSlotBytes, s.undefined);
  put(w.undefined_preds.data() + f.first_predicate, s.undefined_predicates);
}

std::shared_ptr<const Saved> joined(const std::shared_ptr<const Saved>& a, const std::shared_ptr<const Saved>& b,
                                    Mask lanes) {
  if (a == b || !b) return a;
  if (!a) return b;
  auto all = std::make_shared<Saved>(*a);
  for (Mask left = lanes; left; left &= left - 1) all->stack[__builtin_ctz(left)] = b->stack[__builtin_ctz(left)];
  if (!a->function) return all;
  copy_lanes(lanes, *a->function, all->registers.data(), b->registers.data());
  blend(all->predicates, b->predicates, lanes);
  blend(all->undefined, b->undefined, lanes);
  blend(all->undefined_predicates, b->undefined_predicates, lanes);
  const size_t each = all->locals.size() / kLanes;
  for (Mask left = lanes; left; left &= left - 1) {
    const size_t at = each * static_cast<size_t>(__builtin_ctz(left));
    std::copy_n(b->locals.begin() + static_cast<std::ptrdiff_t>(at), each, all->locals.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return all;
}

}  // namespace tilewright::vgpu
