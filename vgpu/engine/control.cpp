// Control flow: bra brx call ret exit trap; printf and assert; fences; instructions without effect here.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "address.h"
#include "collective.h"
#include "frames.h"
#include "interpret.h"
#include "observe.h"
#include "registry.h"

namespace tilewright::vgpu {
namespace {

bool last_of_block(const Warp& w, Mask m) {
  for (const Warp& other : w.block->warps)
    if (other.exist & ~other.exited & ~(&other == &w ? m : 0u)) return false;
  return true;
}

Step op_exit(Warp& w, const Instr& i, Mask m) {
  if (w.block->observer && last_of_block(w, m)) observe_exit(w, i);
  leave(w, m);
  return Step::jump;
}

Step op_trap(Warp& w, const Instr& i, Mask m) {
  report(w, i, Kind::assertion, m, "trap");
  return Step::fault;
}

Step op_nop(Warp&, const Instr&, Mask) { return Step::next; }

// Lanes of `m` go to `pc` with `frames`; the others go on.
void split(Warp& w, Mask m, uint32_t pc, std::vector<Frame> frames) {
  Path& p = w.path();
  if (m == p.mask) {
    p.pc = pc;
    p.frames = std::move(frames);
    return;
  }
  Path taken;
  taken.pc = pc;
  taken.mask = m;
  taken.frames = std::move(frames);
  p.mask &= ~m;
  ++p.pc;
  w.paths.push_back(std::move(taken));
}

// ops: index. imm: target pcs. One path a target taken.
Step op_brx(Warp& w, const Instr& i, Mask m) {
  const uint32_t* index = w.r32(i.ops[0]);
  const std::vector<Frame> frames = w.path().frames;
  while (m) {
    const uint32_t k = index[w.first_lane(m)];
    Mask same = 0;
    for (Mask left = m; left; left &= left - 1)
      if (index[__builtin_ctz(left)] == k) same |= 1u << __builtin_ctz(left);
    if (k >= i.imm_count) {
      report(w, i, Kind::illegal, same, "index " + std::to_string(k) + " is outside the " + std::to_string(i.imm_count) + " targets");
      return Step::fault;
    }
    m &= ~same;
    const bool last = w.path().mask == same;
    split(w, same, static_cast<uint32_t>(i.imm[k]), frames);
    if (!last && m) --w.path().pc;
  }
  return Step::jump;
}

uint8_t* local_piece(Warp& w, int lane, int64_t at) {
  return w.local.data() + static_cast<size_t>(lane) * w.launch().local_bytes + static_cast<size_t>(at);
}

void copy_locals(Warp& w, Mask m, const int64_t* triples, int64_t count) {
  for (int64_t k = 0; k < count; ++k, triples += 3)
    for (Mask left = m; left; left &= left - 1) {
      const int l = __builtin_ctz(left);
      std::memcpy(local_piece(w, l, triples[1]), local_piece(w, l, triples[0]), static_cast<size_t>(triples[2]));
    }
}

// Hands the arguments of a call to the function at `entry` and adds its frame. imm[1], imm[2]: arguments, results.
bool enter(Warp& w, const Instr& i, Mask m, std::vector<Frame>& frames, int64_t entry, const int64_t* triples) {
  const auto pc = static_cast<uint32_t>(entry);
  const Program& program = *w.launch().program;
  const bool active = std::any_of(frames.begin(), frames.end(), [&](const Frame& f) { return f.entry == pc; });
  const FunctionRange* function = active ? function_at(program, pc) : nullptr;
  const char* wrong = active && function->takes_address ? "a recursive call of a function that takes the address of its local memory"
                      : frames.size() >= kMaxFrames     ? "calls are nested deeper than 512"
                                                        : nullptr;
  if (wrong) {
    report(w, i, Kind::illegal, m, wrong);
    return false;
  }
  std::shared_ptr<const Saved> saved;
  if (active || program.has_stack) saved = save(w, m, function);
  copy_locals(w, m, triples, i.imm[1]);
  frames.push_back({w.path().pc + 1, pc, triples + 3 * i.imm[1], i.imm[2], std::move(saved)});
  return true;
}

// Hands the results of a call to its caller, and gives back what the call put aside.
void finish(Warp& w, Mask m, const Frame& frame) {
  if (!frame.saved) return copy_locals(w, m, frame.results, frame.result_count);
  std::vector<uint8_t> results;
  const auto each = [&](auto visit) {
    const int64_t* triple = frame.results;
    for (int64_t k = 0; k < frame.result_count; ++k, triple += 3)
      for (Mask left = m; left; left &= left - 1) visit(__builtin_ctz(left), triple);
  };
  each([&](int l, const int64_t* t) {
    const uint8_t* from = local_piece(w, l, t[0]);
    results.insert(results.end(), from, from + t[2]);
  });
  restore(w, m, *frame.saved);
  const uint8_t* next = results.data();
  each([&](int l, const int64_t* t) {
    std::memcpy(local_piece(w, l, t[1]), next, static_cast<size_t>(t[2]));
    next += t[2];
  });
}

// imm: target, arguments, results, then (from, to, bytes) in local memory for each.
Step op_call(Warp& w, const Instr& i, Mask m) {
  std::vector<Frame> frames = w.path().frames;
  if (!enter(w, i, m, frames, i.imm[0], i.imm + 3)) return Step::fault;
  split(w, m, static_cast<uint32_t>(i.imm[0]), std::move(frames));
  return Step::jump;
}

// ops: address of the function. imm: candidates, arguments, results, then for each candidate its address, target and the
// (from, to, bytes) as for `call`. One path a target.
Step op_call_indirect(Warp& w, const Instr& i, Mask m) {
  const uint64_t* address = w.r64(i.ops[0]);
  const int64_t size = 2 + 3 * (i.imm[1] + i.imm[2]);
  const std::vector<Frame> outer = w.path().frames;
  while (m) {
    const uint64_t wanted = address[w.first_lane(m)];
    Mask same = 0;
    for (Mask left = m; left; left &= left - 1)
      if (address[__builtin_ctz(left)] == wanted) same |= 1u << __builtin_ctz(left);
    const int64_t* found = i.imm + 3;
    const int64_t* end = found + i.imm[0] * size;
    while (found != end && static_cast<uint64_t>(*found) != wanted) found += size;
    if (found == end) {
      report(w, i, Kind::illegal, same, "call of " + hex(wanted) + ", which is no function of this prototype");
      return Step::fault;
    }
    std::vector<Frame> frames = outer;
    if (!enter(w, i, same, frames, found[1], found + 2)) return Step::fault;
    m &= ~same;
    const bool last = w.path().mask == same;
    split(w, same, static_cast<uint32_t>(found[1]), std::move(frames));
    if (!last && m) --w.path().pc;
  }
  return Step::jump;
}

Step op_ret(Warp& w, const Instr& i, Mask m) {
  if (w.path().frames.empty()) return op_exit(w, i, m);
  std::vector<Frame> frames = w.path().frames;
  const Frame frame = frames.back();
  frames.pop_back();
  finish(w, m, frame);
  split(w, m, frame.return_pc, std::move(frames));
  return Step::jump;
}

// --- printf and assert ----------------------------------------------------------------------------------------
std::string read_text(Warp& w, uint64_t address) {
  std::string text;
  for (int k = 0; k < 4096; ++k) {
    const uint8_t* p = global_find(w.launch(), address + static_cast<uint64_t>(k), 1, false);
    if (!p || !*p) break;
    text += static_cast<char>(*p);
  }
  return text;
}

template <class T>
T read_local(Warp& w, int lane, int64_t at) {
  T value;
  std::memcpy(&value, local_piece(w, lane, at), sizeof value);
  return value;
}

// The next argument of `bytes` bytes, naturally aligned in the thread's argument buffer; 0 when it is not there.
uint64_t next_argument(Warp& w, int lane, uint64_t buffer, uint64_t& at, uint64_t bytes) {
  at = (at + bytes - 1) / bytes * bytes;
  const uint64_t from = (buffer & 0xffffffffu) + at;
  at += bytes;
  uint64_t value = 0;
  if (window_of(buffer) == Window::local && from + bytes <= w.launch().local_bytes)
    std::memcpy(&value, local_piece(w, lane, static_cast<int64_t>(from)), bytes);
  return value;
}

// Flags, width, precision and length only: snprintf must not see %n, '*' or endless widths of a damaged text.
bool plain_conversion(const std::string& spec) {
  return spec.size() <= 12 && spec.find_first_not_of("-+ #0123456789.hlzj", 1) == spec.size() - 1;
}

// A conversion without its length: the arguments have known types.
std::string without_length(const std::string& spec) {
  std::string out;
  for (char c : spec)
    if (!std::strchr("hlzj", c)) out += c;
  return out;
}

std::string one_conversion(Warp& w, int lane, const std::string& spec, uint64_t buffer, uint64_t& at) {
  char out[512];
  const char kind = spec.back();
  if (kind == '%') return "%";
  std::string fixed = without_length(spec);
  if (std::strchr("eEfFgGaA", kind)) {
    const uint64_t bits = next_argument(w, lane, buffer, at, 8);
    double value;
    std::memcpy(&value, &bits, 8);
    std::snprintf(out, sizeof out, fixed.c_str(), value);
    return out;
  }
  if (kind == 's') {
    const std::string text = read_text(w, next_argument(w, lane, buffer, at, 8));
    std::snprintf(out, sizeof out, fixed.c_str(), text.c_str());
    return out;
  }
  const bool wide = kind == 'p' || spec.find('l') != std::string::npos || spec.find('z') != std::string::npos || spec.find('j') != std::string::npos;
  uint64_t value = next_argument(w, lane, buffer, at, wide ? 8 : 4);
  if (kind == 'p') return hex(value);
  fixed.insert(fixed.size() - 1, kind == 'c' ? "" : "ll");
  if (!wide && (kind == 'd' || kind == 'i')) value = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value)));
  if (kind == 'c') std::snprintf(out, sizeof out, fixed.c_str(), static_cast<int>(value));
  else std::snprintf(out, sizeof out, fixed.c_str(), static_cast<long long>(value));
  return out;
}

std::string format(Warp& w, int lane, const std::string& text, uint64_t buffer) {
  std::string out;
  uint64_t at = 0;
  for (size_t k = 0; k < text.size(); ++k) {
    if (text[k] != '%') {
      out += text[k];
      continue;
    }
    const size_t end = text.find_first_of("diouxXcspeEfFgGaA%", k + 1);
    if (end == std::string::npos) return out + text.substr(k);
    const std::string spec = text.substr(k, end - k + 1);
    if (spec.back() != '%' && !plain_conversion(spec)) return out + text.substr(k);  // printed raw
    out += one_conversion(w, lane, spec, buffer, at);
    k = end;
  }
  return out;
}

// imm: local offsets of the result, the format pointer and the buffer pointer.
Step op_printf(Warp& w, const Instr& i, Mask m) {
  std::string all;
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const std::string text = read_text(w, read_local<uint64_t>(w, l, i.imm[1]));
    all += format(w, l, text, read_local<uint64_t>(w, l, i.imm[2]));
    if (i.imm[0] >= 0) std::memset(local_piece(w, l, i.imm[0]), 0, 4);
  }
  w.wrote = true;
  Run& run = *w.launch().run;
  const std::lock_guard<std::mutex> lock(run.mutex);
  if (run.output.size() < (1u << 20)) run.output += all;
  return Step::next;
}

// imm: local offsets of message, file, line, function.
Step op_assert(Warp& w, const Instr& i, Mask m) {
  const int l = w.first_lane(m);
  const auto text = [&](int k) { return read_text(w, read_local<uint64_t>(w, l, i.imm[k])); };
  report(w, i, Kind::assertion, m,
         "assertion failed: " + text(0) + " in " + text(3) + " at " + text(1) + ":" +
             std::to_string(read_local<uint32_t>(w, l, i.imm[2])));
  return Step::fault;
}

// Generic writes before this are seen by the async proxy. Threads fence for the writes that earlier barriers ordered
// before them, so the whole block counts as fenced.
Step op_fence_proxy(Warp& w, const Instr&, Mask) {
  observe_proxy_fence(w);
  for (uint8_t& s : w.block->shadow) s &= static_cast<uint8_t>(~kDirty);
  return Step::next;
}

// ops: pointer, size. imm: bytes of their registers, alignment, [another alignment].
Step op_alloca(Warp& w, const Instr& i, Mask m) {
  const uint32_t base = w.launch().local_bytes - kStackBytes;
  const auto align = static_cast<uint64_t>(i.imm[i.imm_count > 2 ? 2 : 1]);
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const uint64_t size = i.imm[0] == 8 ? w.r64(i.ops[1])[l] : w.r32(i.ops[1])[l];
    const uint64_t at = (base + w.stack[l] + align - 1) / align * align;
    if (size > kStackBytes || at + size > w.launch().local_bytes) {
      report(w, i, Kind::out_of_bounds, 1u << l,
             "alloca of " + std::to_string(size) + " bytes: a thread has a stack of " + std::to_string(kStackBytes) +
                 ", of which " + std::to_string(w.stack[l]) + " are in use");
      return Step::fault;
    }
    w.stack[l] = static_cast<uint32_t>(at + size - base);
    if (i.imm[0] == 8) w.r64(i.ops[0])[l] = at;
    else w.r32(i.ops[0])[l] = static_cast<uint32_t>(at);
  }
  return Step::next;
}

// ops: pointer. imm: restores, bytes of the register.
Step op_stack(Warp& w, const Instr& i, Mask m) {
  const uint32_t base = w.launch().local_bytes - kStackBytes;
  for (Mask left = m; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    if (!i.imm[0]) {
      if (i.imm[1] == 8) w.r64(i.ops[0])[l] = base + w.stack[l];
      else w.r32(i.ops[0])[l] = base + w.stack[l];
      continue;
    }
    const uint64_t at = i.imm[1] == 8 ? w.r64(i.ops[0])[l] : w.r32(i.ops[0])[l];
    if (at < base || at > base + w.stack[l]) {
      report(w, i, Kind::illegal, 1u << l, "stackrestore of " + hex(at) + ", which no stacksave of this thread gave");
      return Step::fault;
    }
    w.stack[l] = static_cast<uint32_t>(at - base);
  }
  return Step::next;
}

// imm: registers. The warps of a warpgroup must make the same changes (unit.cpp compares them at the end).
Step op_setmaxnreg(Warp& w, const Instr& i, Mask m) {
  if (!whole_warp(w, i, m)) return Step::fault;
  w.register_changes = w.register_changes * 0x9e3779b97f4a7c15ull + 1 + w.path().pc;
  w.register_change = &i;
  return Step::next;
}

Step op_fence(Warp& w, const Instr& i, Mask) {
  observe_fence(w, i);
  return Step::next;
}

}  // namespace

void register_control(Registry& r) {
  r.add("bra", op_bra);
  r.add("brx", op_brx);
  r.add("call", op_call);
  r.add("call.indirect", op_call_indirect);
  r.add("alloca", op_alloca);
  r.add("stack", op_stack);
  r.add("ret", op_ret);
  r.add("exit", op_exit);
  r.add("trap", op_trap);
  r.add("nop", op_nop);
  r.add("call.printf", op_printf);
  r.add("call.assert", op_assert);
  r.add("fence", op_fence);
  r.add("setmaxnreg", op_setmaxnreg);
  r.add("fence.proxy.async", op_fence_proxy);
}

}  // namespace tilewright::vgpu
