// Loops that repeat themselves: a warp that comes back to the same instruction with the same registers, and has
// written nothing in between, goes on like that until memory changes. Clocks stand still meanwhile: a loop that looks at
// one repeats itself but for the time, and may end when enough of it has passed (grid.cpp).
#include <cstring>
#include <map>

#include "observe.h"
#include "registry.h"
#include "unit.h"

namespace tilewright::vgpu {
namespace {

constexpr uint32_t kFirstLook = 32;  // instructions
constexpr uint64_t kFence = 1u << 5;  // of the traits
enum class InstrClass : uint8_t { store = 6, atomic = 7, copy = 8, matrix = 9, barrier = 10, load = 5 };

InstrClass class_of(const Instr& i) { return static_cast<InstrClass>(i.traits >> 8 & 0xff); }

struct Snapshot {
  std::vector<std::byte> file;
  std::vector<uint32_t> preds;
  std::vector<uint8_t> local;
  std::vector<Path> paths;
  size_t current = 0;
  Mask carry = 0;

  void take(const Warp& w) {
    file.assign(w.file, w.file + w.launch().program->file_bytes);
    preds = w.pred_storage;
    local = w.local;
    paths = w.paths;
    current = w.current;
    carry = w.carry;
  }

  bool recurs(const Warp& w) const {
    if (w.paths.size() != paths.size() || w.current != current || w.carry != carry) return false;
    for (size_t k = 0; k < paths.size(); ++k) {
      const Path &a = paths[k], &b = w.paths[k];
      if (a.pc != b.pc || a.mask != b.mask || a.state != b.state || a.frames.size() != b.frames.size()) return false;
      for (size_t f = 0; f < a.frames.size(); ++f)
        if (a.frames[f].return_pc != b.frames[f].return_pc) return false;
    }
    return preds == w.pred_storage && local == w.local && std::memcmp(file.data(), w.file, file.size()) == 0;
  }
};

// Nobody but the thread sees a store to local memory, and Snapshot compares that.
bool is_private(const Instr& i) {
  static const uint32_t local = registry().index("st.local");
  return i.handler == local;
}

bool has_effect(const Warp& w, const Instr& i) {
  if (w.wrote) return true;
  switch (class_of(i)) {
    case InstrClass::store: return !is_private(i);
    case InstrClass::copy:
    case InstrClass::matrix: return true;
    case InstrClass::barrier: return !(i.traits & kFence) && registry().names()[i.handler] != "mbarrier.wait";
    default: return false;
  }
}

// What the loop reads: the last strong load or atomic, else the last load.
struct Look {
  const Instr* instr = nullptr;
  const uint8_t* at = nullptr;

  void note(const Warp& w, const Instr& i) {
    const InstrClass c = class_of(i);
    if (c != InstrClass::load && c != InstrClass::atomic) return;
    if (instr && order_of(*instr) != Order::weak && order_of(i) == Order::weak) return;
    instr = &i;
    at = w.looked_at;
  }
};

enum class Round : uint8_t { repeats, parked, other };

Round one_round(Warp& w, uint32_t limit, Look& look, bool& effects) {
  Snapshot start;
  start.take(w);
  for (uint32_t steps = 1, renew = kFirstLook; steps <= limit; ++steps) {
    w.wrote = false;
    const Instr* i = step_warp(w);
    if (!i) return Round::parked;
    if (w.launch().run->stop.load(std::memory_order_relaxed)) return Round::other;
    if (has_effect(w, *i)) {
      effects = true;
      return Round::other;
    }
    look.note(w, *i);
    if (w.paths.empty()) return Round::parked;
    if (start.recurs(w)) return Round::repeats;
    if (steps == renew) {
      start.take(w);
      renew *= 2;
      look = Look{};
    }
  }
  effects = true;  // unknown: it may come further
  return Round::other;
}

}  // namespace

bool settle_warp(Warp& w, uint32_t steps, bool& effects) {
  while (!w.paths.empty()) {
    Look look;
    w.read_clock = false;
    w.frozen_clock = clock_now(*w.launch().run);
    Round round = one_round(w, steps, look, effects);
    w.frozen_clock = 0;
    if (round == Round::repeats && w.read_clock) {
      if (look.at) w.launch().run->timed = true;
      else round = Round::other;  // it only lets time pass
    }
    if (round == Round::parked) return true;
    if (round == Round::other) {
      effects |= w.read_clock;
      return false;
    }
    Path& p = w.path();
    p.state = Path::State::spinning;
    p.wait = {kSpin, reinterpret_cast<uint64_t>(look.at), reinterpret_cast<uint64_t>(look.instr)};
  }
  return true;
}

std::string polled(Warp& w, uint32_t steps) {
  std::map<std::pair<const Instr*, const uint8_t*>, uint32_t> seen;
  Look look;
  for (uint32_t k = 0; k < steps; ++k) {
    const Instr* i = step_warp(w);
    if (!i || w.paths.empty() || w.launch().run->stop.load(std::memory_order_relaxed)) return "";
    look.note(w, *i);
    if (look.instr == i) ++seen[{i, look.at}];
  }
  if (!look.at || seen[{look.instr, look.at}] < 4) return "";
  uint32_t value = 0;
  std::memcpy(&value, look.at, reinterpret_cast<uint64_t>(look.at) % 4 ? 1 : 4);
  return "warp " + std::to_string(w.index) + " reads " + place_text(*w.block, look.at) + " again and again, at PTX line " +
         std::to_string(look.instr->line) + "; it holds " + std::to_string(value);
}

void wake(Block& b) {
  for (Warp& w : b.warps)
    for (Path& p : w.paths)
      if (p.state == Path::State::spinning) p.state = Path::State::ready;
}

}  // namespace tilewright::vgpu
